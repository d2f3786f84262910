package view

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/shardctl/shardctl/internal/cluster"
	"github.com/shardctl/shardctl/internal/discover"
	"github.com/shardctl/shardctl/internal/published"
	"github.com/shardctl/shardctl/internal/reconcile"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/internal/settings"
	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/internal/weights"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// Offline shows what a store has, without a replica.
type Offline struct {
	settings *settings.Settings
	db       store.Store
}

// NewOffline shows the store that the settings are of.
func NewOffline(s *settings.Settings, db store.Store) *Offline { return &Offline{s, db} }

// Snapshot reads the store once. A session that died without being marked dead is shown as live, with the problem
// InstanceSilent. Ages of heartbeats are by the store's clock, as their writers had it. Problems that only a replica
// knows of are missing, and those that have to last count at once.
func (o *Offline) Snapshot(ctx context.Context, version string, now time.Time) (*snapshot.Cluster, error) {
	view, err := ReadCluster(ctx, o.settings, o.db, false)
	if err != nil {
		return nil, err
	}
	s, l, err := ReadLists(ctx, o.settings, o.db)
	if err != nil {
		return nil, err
	}
	made := Make(Input{
		Settings: s, Lists: l, Version: version, Cluster: view, Report: reconcile.Explain(view, l.Declared(s)),
	}, nil, now)
	head := &made.Snapshot.Status
	for _, f := range made.Findings {
		f.Problem.Since = head.ObservedAt
		head.Problems = append(head.Problems, f.Problem)
	}
	snapshot.SortProblems(head.Problems)
	return made.Snapshot, nil
}

// Events lists events of the store.
func (o *Offline) Events(ctx context.Context, q snapshot.EventQuery) ([]api.Event, error) {
	return Events(ctx, o.db, q)
}

// EventsChanged returns nil: new events are not noticed.
func (o *Offline) EventsChanged() <-chan struct{} { return nil }

// Runs lists the last runs of a task, the newest first.
func (o *Offline) Runs(ctx context.Context, key string) ([]api.Run, error) {
	view, err := ReadCluster(ctx, o.settings, o.db, false)
	if err != nil {
		return nil, err
	}
	s, _, err := ReadLists(ctx, o.settings, o.db)
	if err != nil {
		return nil, err
	}
	return Runs(ctx, o.db, s, view, record.Key(key))
}

// Mutexes lists the locks of programs.
func (o *Offline) Mutexes(ctx context.Context) ([]api.Lock, error) {
	view := &cluster.View{}
	if err := readSessions(ctx, o.db, view, true); err != nil {
		return nil, err
	}
	return Mutexes(ctx, o.db, view)
}

// ReadCluster reads sessions, members, overrides and the locks of the declared groups from a store. Dead sessions are
// left out unless dead.
func ReadCluster(ctx context.Context, s *settings.Settings, db store.Store, dead bool) (*cluster.View, error) {
	view := &cluster.View{Loaded: true, Locks: map[record.Key]*record.Lock{}}
	if err := readSessions(ctx, db, view, dead); err != nil {
		return nil, err
	}
	for _, g := range s.Groups {
		res, err := db.List(ctx, driver.KindLock, driver.Query{Group: g.Name})
		if err != nil {
			return nil, fmt.Errorf("list the locks of group %s: %w", g.Name, err)
		}
		addLocks(view, res.Docs)
	}
	return view, readOverrides(ctx, db, view)
}

func addLocks(view *cluster.View, docs []driver.Doc) {
	for _, d := range docs {
		if lock, err := record.LockFrom(d); err == nil {
			view.Locks[lock.Key] = &lock
		}
	}
}

// readOverrides adds the overrides to a view.
func readOverrides(ctx context.Context, db store.Store, view *cluster.View) error {
	found, err := db.List(ctx, driver.KindOverride, driver.Query{})
	if err != nil {
		return fmt.Errorf("list what operators asked for: %w", err)
	}
	for _, d := range found.Docs {
		if o, err := record.OverrideFrom(d); err == nil {
			view.Overrides = append(view.Overrides, o)
		}
	}
	view.Now = found.Wall
	return nil
}

// readSessions adds the sessions to a view, with their members.
func readSessions(ctx context.Context, db store.Store, view *cluster.View, dead bool) error {
	q := driver.Query{States: []string{string(record.Live), string(record.Draining)}}
	if dead {
		q.States = append(q.States, string(record.Dead))
	}
	sessions, err := db.List(ctx, driver.KindSession, q)
	if err != nil {
		return fmt.Errorf("list the sessions: %w", err)
	}
	members, err := db.List(ctx, driver.KindMember, driver.Query{})
	if err != nil {
		return fmt.Errorf("list the members: %w", err)
	}
	known := map[string]record.Member{}
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
			ID: d.ID, State: s.State, Member: m, Known: ok, Age: ageOf(s, sessions.Wall),
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

// ReadAgain is a view with what the store has now of sessions, members, overrides and the locks of these keys. What was
// seen may be older than what another replica has answered.
func ReadAgain(
	ctx context.Context, db store.Store, seen *cluster.View, keys []string,
) (*cluster.View, error) {
	now := *seen
	now.Sessions, now.Overrides = nil, nil
	if err := readSessions(ctx, db, &now, true); err != nil {
		return nil, err
	}
	if err := readOverrides(ctx, db, &now); err != nil {
		return nil, err
	}
	if len(keys) == 0 {
		return &now, nil
	}
	now.Locks = maps.Clone(seen.Locks)
	for names := range slices.Chunk(keys, driver.MaxBatch) {
		found, err := db.Read(ctx, driver.KindLock, names...)
		if err != nil {
			return nil, fmt.Errorf("read the locks: %w", err)
		}
		for _, name := range names {
			delete(now.Locks, record.Key(name))
		}
		addLocks(&now, found.Docs)
	}
	return &now, nil
}

// ReadLists reads the published lists from a store, and adds the tasks of what was discovered to the settings.
func ReadLists(ctx context.Context, s *settings.Settings, db store.Store) (*settings.Settings, StoreLists, error) {
	var l StoreLists
	for i := range s.Groups {
		g := &s.Groups[i]
		if g.Discover != nil {
			p, err := discover.NewReader(db, g.Name).Read(ctx)
			if errors.Is(err, store.ErrUnavailable) {
				return nil, l, err
			}
			failed := ""
			if err != nil {
				failed = err.Error()
			}
			l, _ = l.WithDiscovered(g.Name, p, failed)
		}
		if !g.WeightFrom.Measured() {
			continue
		}
		p, err := weights.NewReader(db, g.Name).Read(ctx)
		if errors.Is(err, store.ErrUnavailable) {
			return nil, l, err
		}
		if err == nil || errors.Is(err, published.ErrMalformed) { // else the declared weights are shown
			l, _ = l.WithWeights(g.Name, p)
		}
	}
	s, l = l.Apply(s)
	return s, l, nil
}
