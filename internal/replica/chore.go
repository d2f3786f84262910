package replica

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/config"
	"github.com/shardctl/shardctl/internal/published"
	"github.com/shardctl/shardctl/internal/weights"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/elect/cluster"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/tasks/discover"
)

// choreAgain is how often it is asked whether this replica should take a chore on, although nothing seems to change.
const choreAgain = time.Second

// chore is what one replica does for all, for each group that wants it: for as long as it has the group's lock of the
// space.
type chore struct {
	space   string // of the locks
	message string // what the lock's owner does
	wanted  func(*config.Group) bool
	// work does it for a group until ctx ends or another replica does it. It is called again when it has returned
	// without an error.
	work func(ctx context.Context, g *config.Group, s *config.Settings, token int64) error

	elector *elect.Elector
	cluster elect.Cluster
	lists   *lists
	log     logr.Logger

	mu    sync.Mutex
	under map[string]bool // groups whose lock is held or asked for
}

// chores makes the chores of a replica.
type chores struct {
	node      *node
	lists     *lists
	functions *discover.Functions
	rules     weights.Rules // that weights go by
	log       logr.Logger
}

// all are those that there are.
func (cs *chores) all() []*chore { return []*chore{cs.looking(), cs.weighing()} }

// chore gives a chore what it needs.
func (cs *chores) chore(log logr.Logger, c *chore) *chore {
	c.elector, c.cluster, c.lists, c.log = cs.node.elector, cs.node.cluster, cs.lists, log
	return c
}

func (c *chore) key(group string) record.Key {
	return published.Place{Space: c.space, Group: group}.Key()
}

// keepAsking asks for the locks of groups that no one serves, until ctx ends.
func (c *chore) keepAsking(ctx context.Context) {
	again := time.NewTicker(choreAgain)
	defer again.Stop()
	for {
		changed := c.cluster.Changed()
		s, reloaded := c.lists.files()
		view := c.cluster.View()
		for i := range s.Groups {
			if g := &s.Groups[i]; c.wanted(g) && mayHold(view, s, c.key(g.Name)) && c.begin(g.Name) {
				go c.ask(ctx, g.Name)
			}
		}
		select {
		case <-changed:
		case <-reloaded:
		case <-again.C:
		case <-c.cluster.Done():
			return
		case <-ctx.Done():
			return
		}
	}
}

// mayHold says whether this replica should ask for the lock of a chore: it takes part, no other has newer lists, and
// the lock is free as far as is known.
func mayHold(v *cluster.View, s *config.Settings, key record.Key) bool {
	return takesPart(v, s) && free(v, v.Lock(key))
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
func (c *chore) begin(group string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.under[group] {
		return false
	}
	if c.under == nil {
		c.under = map[string]bool{}
	}
	c.under[group] = true
	return true
}

func (c *chore) end(group string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.under, group)
}

// ask tries to get the lock of a group, once, and serves the group for as long as it is held.
func (c *chore) ask(ctx context.Context, group string) {
	opts := elect.LockOptions{AnyCap: true, Message: c.message}
	ok, err := c.elector.LockWith(ctx, c.key(group), opts, func(ctx context.Context, lease *elect.Lease) error {
		defer c.end(group)
		return c.serve(ctx, group, lease.Token())
	})
	if ok {
		return // serve ends it
	}
	if err != nil && ctx.Err() == nil && !errors.Is(err, elect.ErrClosed) {
		c.log.V(1).Info("A lock could not be had, trying again", "key", c.key(group), "error", err.Error())
	}
	c.end(group)
}

// serve works for a group until ctx ends, another replica does, or this one should not any more. A group that is
// declared in another way is served in that way from then on.
func (c *chore) serve(ctx context.Context, group string, token int64) error {
	c.log.Info("Serving a group", "key", c.key(group), "token", token)
	for ctx.Err() == nil {
		s, _ := c.lists.files()
		g := groupOf(s, group)
		if g == nil || !c.wanted(g) {
			return nil
		}
		round, cancel := context.WithCancel(ctx)
		watched := make(chan bool, 1)
		go func() {
			defer cancel()
			watched <- c.awaitOther(round, g)
		}()
		err := c.work(round, g, s, token)
		cancel()
		if goOn := <-watched; err != nil || !goOn {
			return err
		}
	}
	return nil
}

// awaitOther returns when a group is declared in another way (true), or this replica should not serve it any more.
func (c *chore) awaitOther(ctx context.Context, g *config.Group) (goOn bool) {
	for {
		changed := c.cluster.Changed()
		s, reloaded := c.lists.files()
		if now := groupOf(s, g.Name); now == nil || now.Hash != g.Hash {
			return true
		}
		if v := c.cluster.View(); v.Loaded && v.Open && !takesPart(v, s) {
			return false
		}
		select {
		case <-changed:
		case <-reloaded:
		case <-c.cluster.Done():
			return false
		case <-ctx.Done():
			return true
		}
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
