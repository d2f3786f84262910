package replica

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/cluster"
	"github.com/shardctl/shardctl/internal/discover"
	"github.com/shardctl/shardctl/internal/published"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/internal/settings"
	"github.com/shardctl/shardctl/internal/view"
	"github.com/shardctl/shardctl/internal/weights"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store"
)

// choreRetry is how often the locks of chores are tried although nothing seems to change.
const choreRetry = time.Second

// chore is what one replica does for all, for each group that wants it: for as long as it owns the group's lock of the
// space.
type chore struct {
	space   string // of the locks
	message string // what the lock's owner does
	wanted  func(*settings.Group) bool
	// work does it for a group until ctx ends or another replica does it. It is called again when it has returned
	// without an error.
	work func(ctx context.Context, g *settings.Group, s *settings.Settings, token int64) error

	elector  *elect.Elector
	cluster  elect.Cluster
	settings *settingsInForce
	log      logr.Logger

	mu     sync.Mutex
	groups map[string]bool // those whose lock is held or tried
}

// chores makes the chores of a replica.
type chores struct {
	node      *node
	settings  *settingsInForce
	functions discover.Functions
	rules     func(weights.Measure) weights.Rules // that weights go by
	log       logr.Logger
}

// all are those that there are.
func (cs *chores) all() []*chore { return []*chore{cs.discovery(), cs.weights()} }

// chore gives a chore what it needs.
func (cs *chores) chore(log logr.Logger, c *chore) *chore {
	c.elector, c.cluster, c.settings, c.log = cs.node.elector, cs.node.cluster, cs.settings, log
	return c
}

func (c *chore) key(group string) record.Key {
	return published.Place{Space: c.space, Group: group}.Key()
}

// run tries to acquire the locks of groups that no replica serves, until ctx ends.
func (c *chore) run(ctx context.Context) {
	retry := time.NewTicker(choreRetry)
	defer retry.Stop()
	for {
		changed := c.cluster.Changed()
		s, reloaded := c.settings.files()
		v := c.cluster.View()
		for i := range s.Groups {
			if g := &s.Groups[i]; c.wanted(g) && mayHold(v, s, c.key(g.Name)) && c.begin(g.Name) {
				go c.acquire(ctx, g.Name)
			}
		}
		select {
		case <-changed:
		case <-reloaded:
		case <-retry.C:
		case <-c.cluster.Done():
			return
		case <-ctx.Done():
			return
		}
	}
}

// mayHold says whether this replica should acquire the lock of a chore: it takes part, no other has newer lists, and
// the lock is free as far as is known.
func mayHold(v *cluster.View, s *settings.Settings, key record.Key) bool {
	return takesPart(v, s) && free(v, v.Lock(key))
}

func takesPart(v *cluster.View, s *settings.Settings) bool {
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

// free reports whether no session that may live has the lock.
func free(v *cluster.View, lock record.Lock) bool {
	return lock.Session == "" || v.Orphaned(&lock, v.SessionOf(&lock))
}

// begin notes that the lock of a group is tried; false: it is already.
func (c *chore) begin(group string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.groups[group] {
		return false
	}
	if c.groups == nil {
		c.groups = map[string]bool{}
	}
	c.groups[group] = true
	return true
}

func (c *chore) end(group string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.groups, group)
}

// acquire tries to acquire the lock of a group, once, and serves the group for as long as it is held.
func (c *chore) acquire(ctx context.Context, group string) {
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
		s, _ := c.settings.files()
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
func (c *chore) awaitOther(ctx context.Context, g *settings.Group) (goOn bool) {
	for {
		changed := c.cluster.Changed()
		s, reloaded := c.settings.files()
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

func groupOf(s *settings.Settings, name string) *settings.Group {
	for i := range s.Groups {
		if s.Groups[i].Name == name {
			return &s.Groups[i]
		}
	}
	return nil
}

// discovery lists what exists in the groups whose lock it owns.
func (cs *chores) discovery() *chore {
	log := cs.log.WithName("discovery")
	return cs.chore(log, &chore{
		space: record.GroupDiscovery, message: "it looks for what exists",
		wanted: func(g *settings.Group) bool { return g.Discover != nil && g.Discover.Lister != nil },
		work: func(ctx context.Context, g *settings.Group, s *settings.Settings, token int64) error {
			return newLooker(cs.node.store, g, s, cs.functions, log).Run(ctx, token)
		},
	})
}

func newLooker(
	db store.Store, g *settings.Group, s *settings.Settings, f discover.Functions, log logr.Logger,
) discover.Looker {
	return discover.Looker{
		Store: db, Group: g.Name, Instance: s.Instance, Lister: g.Discover.Lister,
		Env:      discover.Env{Group: g.Name, Lookup: os.LookupEnv, Functions: f},
		Interval: g.Discover.Interval,
		Rules:    discover.Rules{Grace: g.Discover.Grace, Limit: g.Discover.Limit},
		Logger:   log,
	}
}

// seenOf is what the locks say of a group's tasks; false: they are not known at the moment. A task that is not listed
// yet must not count as gone.
func seenOf(v *cluster.View, g *settings.Group, lists view.StoreLists) (seen map[string]weights.Seen, ok bool) {
	if !v.Loaded || v.Stale || g == nil || !lists.Listed(g) {
		return nil, false
	}
	seen = map[string]weights.Seen{}
	for i := range g.Tasks {
		t := &g.Tasks[i]
		if !g.Measures(t) {
			continue
		}
		lock, now := v.Lock(t.Key()), weights.Seen{}
		if now.Since, now.Owner, now.Load = lock.Since, lock.Session, lock.Status.Load; lock.Session != "" {
			now.Lag = lock.Status.Lag
		}
		seen[t.Name] = now
	}
	return seen, true
}

// weights publishes the weights of the groups whose lock it owns.
func (cs *chores) weights() *chore {
	log := cs.log.WithName("weights")
	return cs.chore(log, &chore{
		space: record.GroupWeights, message: "it publishes the weights that follow what is measured",
		wanted: func(g *settings.Group) bool { return g.WeightFrom.Measured() },
		work: func(ctx context.Context, g *settings.Group, s *settings.Settings, token int64) error {
			return weights.Follower{
				Store: cs.node.store, Group: g.Name, Instance: s.Instance, Rules: cs.rules(view.MeasureOf(g)),
				Logger: log,
				See: func() (map[string]weights.Seen, bool) {
					s, lists := cs.settings.all()
					return seenOf(cs.node.cluster.View(), groupOf(s, g.Name), lists)
				},
			}.Run(ctx, token)
		},
	})
}
