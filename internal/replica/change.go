package replica

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/shardctl/shardctl/internal/config"
	"github.com/shardctl/shardctl/internal/operate"
	"github.com/shardctl/shardctl/internal/status"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/balancer"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/elect/cluster"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/store"
)

// seenWithin is how long a change is waited for to be seen here once it is written: the answer shows it then.
const seenWithin = 2 * time.Second

// Change implements the changer of package admin.
func (r *Replica) Change(ctx context.Context, request operate.Request, preview bool) (api.ChangeResult, error) {
	n := r.node.Load()
	if n == nil || !n.cluster.View().Loaded {
		return api.ChangeResult{}, fmt.Errorf("%s: %w", request.Verb, elect.ErrUnavailable)
	}
	view, err := asNow(ctx, n.store, n.cluster.View(), request)
	if err != nil {
		return api.ChangeResult{}, err
	}
	s, from := r.lists.all()
	d, result, err := carryOut(ctx, n.changes, stateOf(s, from, view), request, preview)
	if err != nil || preview {
		return result, err
	}
	n.awaitSeen(ctx, d)
	r.publish()
	return result, nil
}

// asNow is what a replica has seen, with what the store has now of what a request is decided by: who is there, what
// stands, and the locks of the keys. What was seen may be older than another replica's answer, or the store is away.
func asNow(ctx context.Context, db store.Store, seen *cluster.View, r operate.Request) (*cluster.View, error) {
	now := *seen
	now.Sessions, now.Overrides = nil, nil
	if err := lookAtSessions(ctx, db, &now, anyState()); err != nil {
		return nil, err
	}
	if err := lookAtOverrides(ctx, db, &now); err != nil {
		return nil, err
	}
	if r.Scope != record.ScopeTask {
		return &now, nil
	}
	now.Locks = maps.Clone(seen.Locks)
	for names := range slices.Chunk(r.Names, store.MaxBatch) {
		found, err := db.Read(ctx, store.KindLock, names...)
		if err != nil {
			return nil, fmt.Errorf("read the locks: %w", err)
		}
		for _, name := range names {
			delete(now.Locks, elect.Key(name))
		}
		addLocks(&now, found.Docs)
	}
	return &now, nil
}

// anyState has the instances too that are down: one may be drained before it comes back.
func anyState() []record.SessionState {
	return []record.SessionState{record.Live, record.Draining, record.Dead}
}

// carryOut decides a request, and has it written unless it is only a preview.
func carryOut(
	ctx context.Context, w *operate.Writer, state operate.State, request operate.Request, preview bool,
) (operate.Decision, api.ChangeResult, error) {
	d := operate.Decide(state, request)
	if preview {
		return d, d.Result(balancer.Preview(state.View, state.Declared, d.After(state.View.Overrides))), nil
	}
	if err := w.Write(ctx, request, d); err != nil {
		return d, api.ChangeResult{}, err
	}
	return d, d.Result(nil), nil
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
	view, err := lookAt(ctx, s, db, anyState()...)
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
	_, result, err := carryOut(ctx, operate.NewWriter(db), stateOf(s, from, view), request, preview)
	return result, err
}
