package replica

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shardctl/shardctl/internal/config"
	"github.com/shardctl/shardctl/internal/discovery"
	"github.com/shardctl/shardctl/internal/status"
	"github.com/shardctl/shardctl/internal/weights"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/balancer"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/elect/cluster"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/store"
)

// Look reads the store once and shows what it says, without taking part. A session that died without being marked dead
// is shown as live, with the problem InstanceSilent. Ages of heartbeats are by the store's clock, as their writers had
// it. Problems that only a replica knows of are missing, and those that have to last count at once.
func Look(ctx context.Context, s *config.Settings, db store.Store, version string) (*status.Snapshot, error) {
	view, err := lookAt(ctx, s, db, record.Live, record.Draining)
	if err != nil {
		return nil, err
	}
	s, from, err := withPublished(ctx, s, db)
	if err != nil {
		return nil, err
	}
	m := gather(s, view, balancer.Explain(view, declared(s, from)))
	m.read = from
	snapshot := m.lists()
	snapshot.Instances = m.members.instances(time.Time{})
	snapshot.Status = api.Status{
		Cluster: s.Cluster, Version: version, ObservedAt: api.Millis(time.Now().UnixMilli()),
		Store:  api.Store{Kind: StoreKind(s.Store.URI), Reachable: true},
		Groups: snapshot.Status.Groups,
	}
	for _, f := range m.find(snapshot) {
		f.Since = snapshot.Status.ObservedAt
		snapshot.Status.Problems = append(snapshot.Status.Problems, f.Problem)
	}
	snapshot.Sort()
	return snapshot, nil
}

// lookAt reads the store once, with the sessions in these states.
func lookAt(
	ctx context.Context, s *config.Settings, db store.Store, states ...record.SessionState,
) (*cluster.View, error) {
	view := &cluster.View{Loaded: true, Locks: map[elect.Key]*record.Lock{}}
	if err := lookAtSessions(ctx, db, view, states); err != nil {
		return nil, err
	}
	for _, g := range s.Groups {
		res, err := db.List(ctx, store.KindLock, store.Query{Group: g.Name})
		if err != nil {
			return nil, fmt.Errorf("list the locks of group %s: %w", g.Name, err)
		}
		addLocks(view, res.Docs)
	}
	return view, lookAtOverrides(ctx, db, view)
}

func addLocks(view *cluster.View, docs []store.Doc) {
	for _, d := range docs {
		if lock, err := record.LockFrom(d); err == nil {
			view.Locks[lock.Key] = &lock
		}
	}
}

// lookAtOverrides adds what operators asked for to a view.
func lookAtOverrides(ctx context.Context, db store.Store, view *cluster.View) error {
	found, err := db.List(ctx, store.KindOverride, store.Query{})
	if err != nil {
		return fmt.Errorf("list what operators asked for: %w", err)
	}
	for _, d := range found.Docs {
		if o, err := record.OverrideFrom(d); err == nil {
			view.Overrides = append(view.Overrides, o)
		}
	}
	view.Now = found.Now
	return nil
}

func lookAtSessions(ctx context.Context, db store.Store, view *cluster.View, states []record.SessionState) error {
	var q store.Query
	for _, state := range states {
		q.States = append(q.States, string(state))
	}
	sessions, err := db.List(ctx, store.KindSession, q)
	if err != nil {
		return fmt.Errorf("list the sessions: %w", err)
	}
	members, err := db.List(ctx, store.KindMember, store.Query{})
	if err != nil {
		return fmt.Errorf("list the members: %w", err)
	}
	known := map[string]elect.Member{}
	for _, d := range members.Docs {
		if m, err := record.MemberFrom(d); err == nil {
			known[d.ID] = m
		}
	}
	for _, d := range sessions.Docs {
		s, err := record.SessionFrom(d)
		if err != nil {
			continue // malformed, by a change out of band
		}
		m, ok := known[d.ID]
		view.Sessions = append(view.Sessions, cluster.Session{
			ID: d.ID, State: s.State, Member: m, Known: ok, Age: ageOf(s, sessions.Now),
		})
	}
	return nil
}

// ageOf is how long ago the session was written to, by the store's clock; 0 where that is not known.
func ageOf(s record.Session, now int64) time.Duration {
	if s.Clock == 0 {
		return 0
	}
	return max(0, time.Duration(now-s.Clock)*time.Millisecond)
}

// Past reads events, runs and mutexes from a store, without taking part.
type Past struct {
	settings *config.Settings
	db       store.Store
}

// NewPast reads from the store that the settings are of.
func NewPast(s *config.Settings, db store.Store) *Past { return &Past{s, db} }

// Events implements [status.EventSource].
func (p *Past) Events(ctx context.Context, q status.EventQuery) ([]api.Event, error) {
	return listEvents(ctx, p.db, q)
}

// EventsChanged implements [status.EventSource].
func (p *Past) EventsChanged() <-chan struct{} { return nil }

// Runs implements [status.RunSource].
func (p *Past) Runs(ctx context.Context, key string) ([]api.Run, error) {
	view, err := lookAt(ctx, p.settings, p.db, record.Live, record.Draining)
	if err != nil {
		return nil, err
	}
	s, _, err := withPublished(ctx, p.settings, p.db)
	if err != nil {
		return nil, err
	}
	return listRuns(ctx, p.db, gather(s, view, nil), elect.Key(key))
}

// Mutexes implements [status.MutexSource].
func (p *Past) Mutexes(ctx context.Context) ([]api.Lock, error) {
	view := &cluster.View{}
	states := []record.SessionState{record.Live, record.Draining, record.Dead}
	if err := lookAtSessions(ctx, p.db, view, states); err != nil {
		return nil, err
	}
	return listMutexes(ctx, p.db, view)
}

// withPublished reads the lists that are published, and adds the tasks of what was discovered to the settings.
func withPublished(ctx context.Context, s *config.Settings, db store.Store) (*config.Settings, read, error) {
	var from read
	for i := range s.Groups {
		g := &s.Groups[i]
		if g.Discover != nil {
			published, err := discovery.NewReader(db, g.Name).Read(ctx)
			if errors.Is(err, store.ErrUnavailable) {
				return nil, from, err
			}
			failed := ""
			if err != nil {
				failed = err.Error()
			}
			from.found = from.found.with(g.Name, published, failed)
		}
		if g.WeightFrom != config.WeightLag {
			continue
		}
		published, err := weights.NewReader(db, g.Name).Read(ctx)
		if errors.Is(err, store.ErrUnavailable) {
			return nil, from, err
		}
		if err == nil { // else the declared weights are shown
			from.weights = from.weights.with(g.Name, published)
		}
	}
	s, from.found = from.found.apply(s)
	return s, from, nil
}
