package replica

import (
	"context"
	"fmt"
	"time"

	"github.com/shardctl/shardctl/internal/config"
	"github.com/shardctl/shardctl/internal/status"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/elect/cluster"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/elect/store"
)

// Look reads the store once and shows what it says, without taking part. Ages of heartbeats are not known, and a
// session that died without being marked dead is shown as live.
func Look(ctx context.Context, s *config.Settings, db store.Store, version string) (*status.Snapshot, error) {
	view := &cluster.View{Loaded: true, Locks: map[elect.Key]*record.Lock{}}
	if err := lookAtSessions(ctx, db, view); err != nil {
		return nil, err
	}
	for _, g := range s.Groups {
		res, err := db.List(ctx, store.KindLock, store.Query{Group: g.Name})
		if err != nil {
			return nil, fmt.Errorf("list the locks of group %s: %w", g.Name, err)
		}
		for _, d := range res.Docs {
			if lock, err := record.LockFrom(d); err == nil {
				view.Locks[lock.Key] = &lock
			}
		}
	}
	m := gather(s, view, nil)
	snapshot := m.lists()
	snapshot.Instances = m.instances(time.Time{})
	snapshot.Status = status.Status{
		Cluster: s.Cluster, Version: version, ObservedAt: status.Millis(time.Now().UnixMilli()),
		Store:  status.Store{Kind: StoreKind(s.Store.URI), Reachable: true},
		Groups: snapshot.Status.Groups,
	}
	snapshot.Sort()
	return snapshot, nil
}

func lookAtSessions(ctx context.Context, db store.Store, view *cluster.View) error {
	sessions, err := db.List(
		ctx, store.KindSession, store.Query{States: []string{string(record.Live), string(record.Draining)}},
	)
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
		view.Sessions = append(view.Sessions, cluster.Session{ID: d.ID, State: s.State, Member: m, Known: ok})
	}
	return nil
}
