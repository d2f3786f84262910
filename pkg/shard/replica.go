package shard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/shardctl/shardctl/internal/cluster"
	"github.com/shardctl/shardctl/internal/replica"
	"github.com/shardctl/shardctl/internal/sleep"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store"
)

// Replica is this process's part. Its methods may be called concurrently.
type Replica struct {
	cfg     Config
	replica *replica.Replica
	leave   context.CancelFunc
	ended   chan struct{}
	err     error // once ended is closed

	mu      sync.Mutex // held while lists change, so that an older one never follows a newer
	groups  []Group
	refused map[string]error // by group: why its newest list is not in force
}

// Start begins to take part, until ctx ends or [Replica.Close] is called. It returns an error where the configuration
// is wrong, and does not wait for the store.
func Start(ctx context.Context, cfg Config, work Work) (*Replica, error) {
	settings, groups, err := cfg.settings(work)
	if err != nil {
		return nil, err
	}
	if cfg.Options.OpenStore == nil {
		if _, err := store.Lookup(cfg.Store); err != nil {
			return nil, fmt.Errorf("shard.Config: Store: %w (is the package of its driver imported?)", err)
		}
	}
	version := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		version = cmp.Or(info.Main.Version, version)
	}
	r := &Replica{cfg: cfg, groups: slices.Clone(groups), refused: map[string]error{}, ended: make(chan struct{})}
	r.replica = replica.New(replica.Config{
		Settings: settings, Metrics: cfg.Options.Metrics, Logger: cfg.Logger.WithValues("instance", settings.Instance),
		OnStuck: onStuck(cfg.Options.OnStuck), Version: version, Clock: cfg.Options.clock,
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

// onStuck is what the elector calls; nil: its default.
func onStuck(call func(keys []string)) func([]elect.Key) {
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
	work, ctx := errgroup.WithContext(ctx)
	part, left := context.WithCancel(context.WithoutCancel(ctx))
	defer left()
	work.Go(func() error {
		defer left()
		return r.replica.Run(part, db)
	})
	work.Go(func() error {
		select {
		case <-ctx.Done():
			// Where the store is away the drain does not end. The replica then leaves as it can.
			draining, cancel := context.WithTimeout(part, r.replica.Settings().Lease.Duration)
			_ = r.replica.Drain(draining)
			cancel()
			left()
		case <-part.Done():
		}
		return nil
	})
	for _, g := range groups {
		if g.KeysFrom != nil {
			work.Go(func() error { r.keepListing(part, g); return nil })
		}
	}
	return work.Wait()
}

// open is the store to use, once it answers; nil when ctx ended before, or with an error that stays.
func (r *Replica) open(ctx context.Context) (store.Store, error) {
	if r.cfg.Options.OpenStore != nil {
		return r.cfg.Options.OpenStore, nil
	}
	open := func(ctx context.Context) (store.Store, error) {
		return store.Open(ctx, r.replica.Settings().StoreConfig(r.cfg.Logger))
	}
	db, err := replica.WaitForStore(ctx, -1, open, func(err error, next time.Duration) {
		r.cfg.Logger.Info("The store cannot be reached: trying again", "error", err.Error(), "duration", next)
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
		if sleep.For(ctx, minEvery) != nil {
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
		r.cfg.Logger.Error(err, "The list of keys could not be had: the last one stays", "group", g.Name)
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

// SetKeys replaces the keys of a group. Those that are gone are released once all processes agree.
func (r *Replica) SetKeys(group string, keys []string) error {
	return r.change(group, true, func(g *Group) error {
		if g.Slots > 0 {
			return fmt.Errorf("group %q has slots, which are its keys", group)
		}
		g.Keys = slices.Clone(keys)
		return nil
	})
}

// SetCap changes how many keys of a group this process owns at most; 0: no cap. What it owns above that moves away.
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

// Owner is who owns a key.
type Owner struct {
	Key      string // GROUP/NAME
	Instance string
	Address  string // its [Config.Address]; empty: it has none
	Token    int64
}

// Owned lists the keys, as GROUP/NAME and in order, whose work goes on here.
func (r *Replica) Owned() []string {
	var keys []string
	for key, held := range r.view().Held {
		if held.Phase == cluster.PhaseRunning {
			keys = append(keys, string(key))
		}
	}
	slices.Sort(keys)
	return keys
}

// Owner is who owns a key, GROUP/NAME, as far as this process knows: see [cluster.View.Owner]. false: it has no owner.
func (r *Replica) Owner(key string) (Owner, bool) {
	o, owned := r.view().Owner(elect.Key(key))
	if !owned {
		return Owner{}, false
	}
	return Owner{key, o.Instance, o.Address, o.Token}, true
}

// SetLoad says how much work a key is, GROUP/NAME, that this process owns: messages a second, say, in a unit that is
// the same for all keys of the group. Keys with a load weigh as much in comparison, and keys move for it rarely. What
// is said within half a minute is averaged. Of a key that this process does not own nothing is noted. The error says
// that the load is not a number from 0 to 1e15. It may be called concurrently, and does not wait.
func (r *Replica) SetLoad(key string, load float64) error {
	return r.replica.SetLoad(elect.Key(key), load)
}

// Watch yields at once, and then whenever what this process knows of owners may have changed, until ctx or the Replica
// ends: ask Owned and Owner then.
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

// Drain hands every key over and waits until nothing is held, or ctx ends. It takes no more keys.
func (r *Replica) Drain(ctx context.Context) error { return r.replica.Drain(ctx) }

// Wait waits until the end, as [Run] returns it.
func (r *Replica) Wait() error {
	<-r.ended
	return r.err
}

// Close hands every key over, as the end of the context does, and waits for it.
func (r *Replica) Close() error {
	r.leave()
	return r.Wait()
}
