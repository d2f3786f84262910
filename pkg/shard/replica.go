package shard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/clock"
	"github.com/shardctl/shardctl/internal/cluster"
	"github.com/shardctl/shardctl/internal/replica"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// A Replica is this process's membership in the cluster. Its methods may be called concurrently.
type Replica struct {
	cfg     Config
	log     logr.Logger
	replica *replica.Replica
	leave   context.CancelFunc
	ended   chan struct{}
	err     error // once ended is closed

	mu      sync.Mutex // held while lists change, so that an older one never follows a newer
	groups  []Group
	refused map[string]error // by group: why its newest list is not in force
}

// Start is [Run] in the background: it shares the keys until ctx is done or [Replica.Close] is called. It returns an
// error if the configuration is invalid, and does not wait for the store.
//
// The process may be exited: see [Config.Overrun].
func Start(ctx context.Context, cfg Config, work Work) (*Replica, error) {
	settings, groups, err := cfg.settings(work)
	if err != nil {
		return nil, err
	}
	if cfg.Options.OpenStore == nil {
		if _, err := driver.Lookup(cfg.Store); err != nil {
			return nil, fmt.Errorf("shard.Config: Store: %w (is the package of its driver imported?)", err)
		}
	}
	version := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		version = cmp.Or(info.Main.Version, version)
	}
	log := logr.FromSlogHandler(cmp.Or(cfg.Logger, slog.Default()).Handler())
	r := &Replica{cfg: cfg, log: log, groups: slices.Clone(groups), refused: map[string]error{}, ended: make(chan struct{})}
	r.replica = replica.New(replica.Config{
		Settings: settings, Metrics: cfg.Options.Metrics, Logger: log.WithValues("instance", settings.Instance),
		OnStuck: onStuck(cfg.Overrun), Version: version, Clock: cfg.Options.clock,
		Revision: cmp.Or(cfg.Options.Rollout, replica.ProgramRevision(version)),
	})
	ctx, r.leave = context.WithCancel(ctx)
	go func() {
		defer close(r.ended)
		defer r.leave()
		r.err = r.run(ctx, groups)
	}()
	return r, nil
}

// onStuck returns what the elector calls. Nil has it exit the process.
func onStuck(call Overrun) func([]elect.Key) {
	if call == nil {
		return nil
	}
	return func(keys []elect.Key) {
		names := make([]string, len(keys))
		for i, k := range keys {
			names[i] = string(k)
		}
		call(names)
	}
}

// run takes part until ctx ends, and hands everything over.
func (r *Replica) run(ctx context.Context, groups []Group) error {
	db, err := r.open(ctx)
	if db == nil {
		return err
	}
	if r.cfg.Options.OpenStore == nil {
		defer func() {
			closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			_ = db.Close(closing) // everything that mattered is acknowledged
		}()
	}
	for _, g := range groups {
		if g.KeysFrom != nil && !r.firstList(ctx, g) {
			return nil
		}
	}
	part, left := context.WithCancel(context.WithoutCancel(ctx))
	var beside sync.WaitGroup
	beside.Go(func() {
		select {
		case <-ctx.Done():
			// Where the store is away the drain does not end. The replica then leaves as it can.
			draining, cancel := context.WithTimeout(part, r.replica.Settings().Lease.Duration)
			_ = r.replica.Drain(draining)
			cancel()
			left()
		case <-part.Done():
		}
	})
	for _, g := range groups {
		if g.KeysFrom != nil {
			beside.Go(func() { r.keepListing(part, g) })
		}
	}
	defer beside.Wait()
	defer left()
	return r.replica.Run(part, db)
}

// open is the store to use, once it answers; nil when ctx ended before, or with an error that stays.
func (r *Replica) open(ctx context.Context) (store.Store, error) {
	if r.cfg.Options.OpenStore != nil {
		return r.cfg.Options.OpenStore, nil
	}
	open := func(ctx context.Context) (store.Store, error) {
		return store.Open(ctx, r.replica.Settings().StoreConfig(r.log))
	}
	db, err := replica.WaitForStore(ctx, -1, open, func(err error, next time.Duration) {
		r.log.Info("The store cannot be reached: trying again", "error", err.Error(), "duration", next)
		r.replica.StoreFailed(err)
	})
	if err != nil && ctx.Err() != nil {
		return nil, nil //nolint:nilerr // it was asked to end
	}
	return db, err
}

// firstList waits for the first list of a group; false: ctx has ended.
func (r *Replica) firstList(ctx context.Context, g Group) bool {
	for !r.list(ctx, g) {
		if clock.Sleep(ctx, minEvery) != nil {
			return false
		}
	}
	return true
}

func (r *Replica) keepListing(ctx context.Context, g Group) {
	due := time.NewTicker(g.KeysEvery)
	defer due.Stop()
	for {
		select {
		case <-due.C:
			r.list(ctx, g)
		case <-ctx.Done():
			return
		}
	}
}

// list asks for the keys of a group once. A list that is not had, or is wrong, is a problem that the page shows.
func (r *Replica) list(ctx context.Context, g Group) bool {
	keys, err := g.KeysFrom(ctx)
	if err == nil {
		err = r.SetKeys(g.Name, keys)
	} else {
		err = fmt.Errorf("group %q: KeysFrom: %w", g.Name, err)
	}
	if err != nil && ctx.Err() == nil {
		r.log.Error(err, "KeysFrom failed; keeping the previous list", "group", g.Name)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.refused[g.Name] = err
		r.refuse()
	}
	return err == nil
}

// refuse shows what is wrong with lists, if anything is. The mutex is held.
func (r *Replica) refuse() {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(r.refused)) {
		errs = append(errs, r.refused[name])
	}
	if err := errors.Join(errs...); err != nil {
		r.replica.Refuse(err)
	}
}

// SetKeys replaces the keys of a group. Those that are gone are released once all processes agree on the list.
func (r *Replica) SetKeys(group string, keys []string) error {
	return r.change(group, true, func(g *Group) error {
		if g.Slots > 0 {
			return fmt.Errorf("group %q has slots, which are its keys", group)
		}
		g.Keys = slices.Clone(keys)
		return nil
	})
}

// SetCap changes the most keys of a group that this process owns; 0 means no cap. Keys above it move away.
func (r *Replica) SetCap(group string, most int) error {
	return r.change(group, false, func(g *Group) error {
		g.Cap = most
		return nil
	})
}

// change goes on with one group changed; listed: by a new list.
func (r *Replica) change(name string, listed bool, change func(*Group) error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.IndexFunc(r.groups, func(g Group) bool { return g.Name == name })
	if i < 0 {
		return fmt.Errorf("there is no group %q", name)
	}
	g := r.groups[i]
	if err := change(&g); err != nil {
		return err
	}
	built, err := g.settings()
	if err != nil {
		return err
	}
	settings := *r.replica.Settings()
	settings.Groups = slices.Clone(settings.Groups)
	same := built.Hash == settings.Groups[i].Hash && g.Cap == r.groups[i].Cap
	settings.Groups[i], r.groups[i] = built, g
	if _, refused := r.refused[name]; listed && refused {
		delete(r.refused, name)
	} else if same {
		return nil // as most lists that are asked for
	}
	r.replica.Apply(&settings, nil)
	r.refuse()
	return nil
}

// Owner is the process that owns a key.
type Owner struct {
	Key      string // GROUP/NAME
	Instance string
	Address  string // its [Config.Address]; may be empty
	Token    int64
}

// Owned returns the keys, each GROUP/NAME and in order, whose work runs here.
func (r *Replica) Owned() []string {
	var keys []string
	for key, held := range r.view().Held {
		if held.Phase == cluster.PhaseRunning && !key.Chore() {
			keys = append(keys, string(key))
		}
	}
	slices.Sort(keys)
	return keys
}

// Owner returns the owner of a key, GROUP/NAME, as far as this process knows. It returns false if there is none. The
// answer may be outdated: an owner has to reject requests for keys that it no longer has.
func (r *Replica) Owner(key string) (Owner, bool) {
	o, owned := r.view().Owner(elect.Key(key))
	if !owned {
		return Owner{}, false
	}
	return Owner{key, o.Instance, o.Address, o.Token}, true
}

// SetLoad reports the load of a key, GROUP/NAME, such as messages a second, in a unit that is the same for all keys of
// the group. Keys weigh as much as their load, and move for it rarely. Reports within half a minute are averaged.
// SetLoad has no effect on keys this process does not own. It does not block. It returns an error if the load is not a
// number from 0 to 1e15.
func (r *Replica) SetLoad(key string, load float64) error {
	return r.replica.SetLoad(elect.Key(key), load)
}

// Watch yields at once, and then whenever the owners known to this process may have changed, until ctx is done or the
// Replica has ended. Call Owned and Owner then.
func (r *Replica) Watch(ctx context.Context) iter.Seq[struct{}] {
	return func(yield func(struct{}) bool) {
		for {
			changed := r.replica.Board().Changed()
			if c := r.replica.Cluster(); c != nil {
				changed = c.Changed()
			}
			if !yield(struct{}{}) {
				return
			}
			select {
			case <-changed:
			case <-r.ended:
				return
			case <-ctx.Done():
				return
			}
		}
	}
}

// view is what is known of the cluster; empty before there is a store.
func (r *Replica) view() *cluster.View {
	if c := r.replica.Cluster(); c != nil {
		return c.View()
	}
	return &cluster.View{}
}

// Inside returns what packages of this module, such as shardhttp, show of a Replica. Programs have no use for it.
func (r *Replica) Inside() *replica.Replica { return r.replica }

// Drain releases all keys and takes no more. It waits until none is held or ctx is done.
func (r *Replica) Drain(ctx context.Context) error { return r.replica.Drain(ctx) }

// Wait waits until the Replica has ended, and returns what [Run] would.
func (r *Replica) Wait() error {
	<-r.ended
	return r.err
}

// Close releases all keys, as the end of the context does, and waits until the Replica has ended.
func (r *Replica) Close() error {
	r.leave()
	return r.Wait()
}
