package replica

import (
	"context"
	"fmt"
	"time"

	"github.com/shardctl/shardctl/internal/config"
	"github.com/shardctl/shardctl/internal/operate"
	"github.com/shardctl/shardctl/internal/status"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/balancer"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/elect/cluster"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/elect/store"
)

// seenWithin is how long a change is waited for to be seen here once it is written: the answer shows it then.
const seenWithin = 2 * time.Second

// Change implements the changer of package admin.
func (r *Replica) Change(ctx context.Context, request operate.Request, preview bool) (api.ChangeResult, error) {
	n := r.node.Load()
	if n == nil || !n.cluster.View().Loaded {
		return api.ChangeResult{}, fmt.Errorf("%s: %w", request.Verb, elect.ErrUnavailable)
	}
	s, from := r.lists.all()
	state := stateOf(s, from, n.cluster.View())
	d := operate.Decide(state, request)
	if preview {
		return d.Result(balancer.Preview(state.View, state.Declared, d.After(state.View.Overrides))), nil
	}
	if err := n.changes.Write(ctx, request, d); err != nil {
		return api.ChangeResult{}, err
	}
	n.awaitSeen(ctx, d)
	r.publish()
	return d.Result(nil), nil
}

// stateOf is what a request is decided by.
func stateOf(s *config.Settings, from read, v *cluster.View) operate.State {
	ticks := map[elect.Key]bool{}
	for _, t := range taskList(s) {
		if t.Ticks() {
			ticks[t.Key()] = true
		}
	}
	return operate.State{View: v, Declared: declared(s, from), Ticks: func(key elect.Key) bool { return ticks[key] }}
}

// awaitSeen waits until the view shows what was written. It may be overtaken by another request.
func (n *node) awaitSeen(ctx context.Context, d operate.Decision) {
	ctx, cancel := context.WithTimeout(ctx, seenWithin)
	defer cancel()
	for {
		changed := n.cluster.Changed()
		if shows(n.cluster.View().Overrides, d) {
			return
		}
		select {
		case <-changed:
		case <-n.cluster.Done():
			return
		case <-ctx.Done():
			return
		}
	}
}

func shows(overrides []record.Override, d operate.Decision) bool {
	there := make(map[string]record.Override, len(overrides))
	for _, o := range overrides {
		there[o.ID()] = o
	}
	for _, o := range d.Put {
		if now, ok := there[o.ID()]; !ok || now.By != o.By || now.Reason != o.Reason || now.To != o.To ||
			now.Request != o.Request || now.Token < o.Token {
			return false
		}
	}
	for _, o := range d.Delete {
		if now, ok := there[o.ID()]; ok && now.Rev == o.Rev {
			return false
		}
	}
	return true
}

// ChangeStore carries a request out on a store, when no replica is up. about says which names are meant, of what the
// store shows.
func ChangeStore(
	ctx context.Context, s *config.Settings, db store.Store, request operate.Request,
	about func(*status.Snapshot) ([]string, error), preview bool,
) (api.ChangeResult, error) {
	// An instance that is down may be drained before it comes back.
	view, err := lookAt(ctx, s, db, record.Live, record.Draining, record.Dead)
	if err != nil {
		return api.ChangeResult{}, err
	}
	s, from, err := withPublished(ctx, s, db)
	if err != nil {
		return api.ChangeResult{}, err
	}
	snapshot := gather(s, view, nil).lists()
	snapshot.Sort()
	if request.Names, err = about(snapshot); err != nil {
		return api.ChangeResult{}, err
	}
	if err := request.Validate(); err != nil {
		return api.ChangeResult{}, err
	}
	state := stateOf(s, from, view)
	d := operate.Decide(state, request)
	if preview {
		return d.Result(balancer.Preview(view, state.Declared, d.After(view.Overrides))), nil
	}
	return d.Result(nil), operate.NewWriter(db).Write(ctx, request, d)
}
