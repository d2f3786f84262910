package operate

import (
	"context"
	"time"

	"github.com/shardctl/shardctl/internal/cluster"
	"github.com/shardctl/shardctl/internal/reconcile"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/internal/settings"
	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/internal/view"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store"
)

// Change decides a request and, unless it is only a preview, has it written.
func Change(
	ctx context.Context, w *Writer, state State, r Request, preview bool,
) (Decision, api.ChangeResult, error) {
	d := Decide(state, r)
	if preview {
		return d, d.Result(reconcile.Preview(state.View, state.Declared, d.After(state.View.Overrides))), nil
	}
	if err := w.Write(ctx, r, d); err != nil {
		return d, api.ChangeResult{}, err
	}
	return d, d.Result(nil), nil
}

// StateOf is the state of a cluster. s has the tasks of what was discovered, as [view.StoreLists.Apply] makes it.
func StateOf(s *settings.Settings, lists view.StoreLists, c *cluster.View) State {
	ticks := map[elect.Key]bool{}
	for i := range s.Groups {
		for j := range s.Groups[i].Tasks {
			if t := &s.Groups[i].Tasks[j]; t.Ticks() {
				ticks[t.Key()] = true
			}
		}
	}
	return State{View: c, Declared: lists.Declared(s), Ticks: func(key elect.Key) bool { return ticks[key] }}
}

// ChangeStore carries a request out on a store, without a replica. about says which names are meant, of what the store
// shows.
func ChangeStore(
	ctx context.Context, s *settings.Settings, db store.Store, r Request,
	about func(*snapshot.Cluster) ([]string, error), preview bool,
) (api.ChangeResult, error) {
	c, err := view.ReadCluster(ctx, s, db, true)
	if err != nil {
		return api.ChangeResult{}, err
	}
	s, lists, err := view.ReadLists(ctx, s, db)
	if err != nil {
		return api.ChangeResult{}, err
	}
	shown := view.Make(view.Input{Settings: s, Lists: lists, Cluster: c}, nil, time.Now())
	if r.Names, err = about(shown.Snapshot); err != nil {
		return api.ChangeResult{}, err
	}
	if err := r.Validate(); err != nil {
		return api.ChangeResult{}, err
	}
	_, result, err := Change(ctx, NewWriter(db), StateOf(s, lists, c), r, preview)
	return result, err
}

// Result is the decision as a result. Lists are never nil.
func (d Decision) Result(moves []reconcile.Move) api.ChangeResult {
	r := api.ChangeResult{
		Changed: []string{}, Unchanged: append([]string{}, d.Unchanged...),
		Refused: append([]api.Refusal{}, d.Refused...),
		Moves:   []api.PlannedMove{},
	}
	for _, o := range d.Put {
		if o.Kind == record.OverrideResume {
			continue // goes with a pause that is deleted
		}
		r.Changed = append(r.Changed, o.Name)
	}
	for _, o := range d.Delete {
		r.Changed = append(r.Changed, o.Name)
	}
	for _, m := range moves {
		r.Moves = append(r.Moves, api.PlannedMove{
			Key: string(m.Key), From: m.From, To: m.To, Reason: string(m.Reason),
		})
	}
	return r
}
