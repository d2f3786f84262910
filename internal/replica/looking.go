package replica

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/config"
	"github.com/shardctl/shardctl/internal/discovery"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/elect/cluster"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/elect/store"
	"github.com/shardctl/shardctl/pkg/tasks/discover"
)

// lookAgain is how often it is asked whether this replica should look at a group, although nothing seems to change.
const lookAgain = time.Second

// looking has this replica look for what exists in the groups whose lock it gets.
type looking struct {
	db        store.Store
	elector   *elect.Elector
	cluster   elect.Cluster
	lists     *lists
	functions *discover.Functions
	log       logr.Logger

	mu    sync.Mutex
	under map[string]bool // groups whose lock is held or asked for
}

// keepLooking asks for the locks of groups that no one looks at, until ctx ends.
func (l *looking) keepLooking(ctx context.Context) {
	again := time.NewTicker(lookAgain)
	defer again.Stop()
	for {
		changed := l.cluster.Changed()
		s, reloaded := l.lists.files()
		view := l.cluster.View()
		for i := range s.Groups {
			if g := &s.Groups[i]; g.Discover != nil && mayLook(view, s, g.Name) && l.begin(g.Name) {
				go l.ask(ctx, g.Name)
			}
		}
		select {
		case <-changed:
		case <-reloaded:
		case <-again.C:
		case <-l.cluster.Done():
			return
		case <-ctx.Done():
			return
		}
	}
}

// mayLook says whether this replica should ask for the lock of a group: it takes part, no other has newer lists, and
// the lock is free as far as is known.
func mayLook(v *cluster.View, s *config.Settings, group string) bool {
	return takesPart(v, s) && free(v, v.Lock(discovery.Key(group)))
}

func takesPart(v *cluster.View, s *config.Settings) bool {
	if !v.Loaded || !v.Open || v.Draining {
		return false
	}
	for i := range v.Sessions {
		if m := &v.Sessions[i]; m.Known && m.State == record.Live && m.Member.ListRevision > s.Revision {
			return false
		}
	}
	return true
}

// free says whether no session that may live has the lock.
func free(v *cluster.View, lock record.Lock) bool {
	if lock.Session == "" {
		return true
	}
	for i := range v.Sessions {
		if m := &v.Sessions[i]; m.ID == lock.Session {
			return m.State == record.Dead
		}
	}
	return true // it is not in the view any more: trying says the truth
}

// begin notes that the lock of a group is asked for; false: it is already.
func (l *looking) begin(group string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.under[group] {
		return false
	}
	if l.under == nil {
		l.under = map[string]bool{}
	}
	l.under[group] = true
	return true
}

func (l *looking) end(group string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.under, group)
}

// ask tries to get the lock of a group, once, and looks for as long as it is held.
func (l *looking) ask(ctx context.Context, group string) {
	opts := elect.LockOptions{AnyCap: true, Message: "it looks for what exists"}
	ok, err := l.elector.LockWith(ctx, discovery.Key(group), opts, func(ctx context.Context, lease *elect.Lease) error {
		defer l.end(group)
		return l.look(ctx, group, lease.Token())
	})
	if ok {
		return // look ends it
	}
	if err != nil && ctx.Err() == nil && !errors.Is(err, elect.ErrClosed) {
		l.log.V(1).Info("The lock of who looks could not be had, trying again", "group", group, "error", err.Error())
	}
	l.end(group)
}

// look looks at a group until ctx ends, another replica looks, or this one should not any more. A group that is declared
// in another way is looked at in that way from then on.
func (l *looking) look(ctx context.Context, group string, token int64) error {
	l.log.Info("Looking for what exists", "group", group, "token", token)
	for ctx.Err() == nil {
		s, _ := l.lists.files()
		g := groupOf(s, group)
		if g == nil || g.Discover == nil || g.Discover.Lister == nil {
			return nil
		}
		round, cancel := context.WithCancel(ctx)
		watched := make(chan bool, 1)
		go func() {
			defer cancel()
			watched <- l.awaitOther(round, g)
		}()
		err := l.looker(g, s).Run(round, token)
		cancel()
		if goOn := <-watched; err != nil || !goOn {
			return err
		}
	}
	return nil
}

// awaitOther returns when a group is declared in another way (true), or this replica should not look any more.
func (l *looking) awaitOther(ctx context.Context, g *config.Group) (goOn bool) {
	for {
		changed := l.cluster.Changed()
		s, reloaded := l.lists.files()
		if now := groupOf(s, g.Name); now == nil || now.Hash != g.Hash {
			return true
		}
		if v := l.cluster.View(); v.Loaded && v.Open && !takesPart(v, s) {
			return false
		}
		select {
		case <-changed:
		case <-reloaded:
		case <-l.cluster.Done():
			return false
		case <-ctx.Done():
			return true
		}
	}
}

func (l *looking) looker(g *config.Group, s *config.Settings) discovery.Looker {
	return discovery.Looker{
		Store: l.db, Group: g.Name, Instance: s.Instance, Lister: g.Discover.Lister,
		Env:      discover.Env{Group: g.Name, Lookup: os.LookupEnv, Functions: l.functions},
		Interval: g.Discover.Interval,
		Rules:    discovery.Rules{Grace: g.Discover.Grace, Limit: g.Discover.Limit},
		Logger:   l.log,
	}
}

func groupOf(s *config.Settings, name string) *config.Group {
	for i := range s.Groups {
		if s.Groups[i].Name == name {
			return &s.Groups[i]
		}
	}
	return nil
}
