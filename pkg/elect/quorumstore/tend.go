package quorumstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/shardctl/shardctl/pkg/elect/internal/quorum"
	"github.com/shardctl/shardctl/pkg/elect/store"
)

// foundTable is the identities of all servers, as they were last seen.
type foundTable struct {
	mu      sync.Mutex
	all     []quorum.Found
	errs    []error
	fatal   []bool // it is no use to try again
	changed chan struct{}
}

func (f *foundTable) begin(n int) {
	f.all, f.errs, f.fatal = make([]quorum.Found, n), make([]error, n), make([]bool, n)
	f.changed = make(chan struct{})
}

// set notes one server, and says how it stands among all as they are known.
func (f *foundTable) set(i int, found quorum.Found, want quorum.Identity, err error) (quorum.Standing, string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all[i], f.errs[i] = found, err
	f.fatal[i] = errors.Is(err, store.ErrInvalid) || errors.Is(err, store.ErrSchema)
	f.wake()
	made, _ := quorum.Incarnation(want.Incarnation, f.all)
	return quorum.Admission(want, f.all)[i], made
}

// standings are those of all servers, as they were last seen.
func (f *foundTable) standings(want quorum.Identity) []quorum.Standing {
	f.mu.Lock()
	defer f.mu.Unlock()
	return quorum.Admission(want, f.all)
}

// incarnation is that of the quorum.
func (f *foundTable) incarnation(want quorum.Identity) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	made, _ := quorum.Incarnation(want.Incarnation, f.all)
	return made
}

// looked waits until a server was looked at.
func (f *foundTable) looked(ctx context.Context, i int) error {
	for {
		f.mu.Lock()
		reached, fatal, err, changed := f.all[i].Reached, f.fatal[i], f.errs[i], f.changed
		f.mu.Unlock()
		switch {
		case reached:
			return nil
		case fatal:
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", store.ErrUnavailable, join(err, context.Cause(ctx)))
		}
	}
}

// wake wants the lock held.
func (f *foundTable) wake() {
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *foundTable) served() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wake()
}

// await waits until a majority counts, or never will.
func (f *foundTable) await(ctx context.Context, servers []*server) error {
	need := quorum.Majority(len(servers))
	for {
		changed, hopeless := f.hopeless(need)
		serve := 0
		var why []error
		for _, at := range servers {
			if _, _, err := at.serving(); err == nil {
				serve++
			} else {
				why = append(why, fmt.Errorf("server %d: %w", at.index+1, err))
			}
		}
		switch {
		case serve >= need:
			return nil
		case hopeless != nil:
			return hopeless
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%w: %d of %d servers count, want %d: %w", store.ErrUnavailable, serve, len(servers), need,
				join(append(why, context.Cause(ctx))...))
		}
	}
}

// hopeless is why it is no use to wait: too many servers will not do, or one where a set-up needs all. changed is closed
// with the next change.
func (f *foundTable) hopeless(need int) (changed <-chan struct{}, why error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, isSetUp := quorum.Incarnation("", f.all)
	fatal, reached := 0, 0
	var errs []error
	for i, found := range f.all {
		switch {
		case f.fatal[i]:
			fatal++
			errs = append(errs, fmt.Errorf("server %d: %w", i+1, f.errs[i]))
		case found.Reached:
			reached++
		}
	}
	n := len(f.all)
	if n-fatal < need || fatal > 0 && !isSetUp && fatal+reached == n {
		why = join(errs...)
	}
	return f.changed, why
}

// Pauses between looks at a server that does not count.
const (
	firstTend = 20 * time.Millisecond
	lastTend  = 2 * time.Second
)

// tender keeps one server connected, and admits it when its identity allows that.
type tender struct {
	store    *Store
	server   *server
	existing bool
}

// run ends with the store.
func (t *tender) run(ctx context.Context) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := t.store.life.OnEnd(cancel)
	defer stop()
	wait := firstTend
	for ctx.Err() == nil {
		serves, err := t.admit(ctx)
		if serves {
			wait = firstTend
			t.store.found.served()
			select {
			case <-t.server.leave:
			case <-ctx.Done():
			}
			continue
		}
		if err != nil {
			t.server.mu.Lock()
			t.server.trouble = err
			t.server.mu.Unlock()
			t.store.log.V(1).Info("A server of the quorum does not count", "store", t.server.spec.Name, "error", err.Error())
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
		wait = min(2*wait, lastTend)
		if err == nil {
			wait = firstTend
		}
	}
}

// admit does the next thing with the server: connects, looks at its identity, writes or confirms it. serves: it counts.
// Without an error the next look may be soon.
func (t *tender) admit(ctx context.Context) (serves bool, err error) {
	own, cancel := context.WithTimeout(ctx, t.timeout())
	defer cancel()
	client, err := t.connect(own)
	if err != nil {
		t.store.found.set(t.server.index, quorum.Found{}, t.store.want, err)
		return false, err
	}
	id, err := readIdentity(own, client)
	if err != nil {
		t.store.found.set(t.server.index, quorum.Found{}, t.store.want, err)
		return false, err
	}
	standing, made := t.store.found.set(t.server.index, quorum.Found{Reached: true, ID: id}, t.store.want, nil)
	want := t.store.want
	want.Index, want.Incarnation = t.server.index, made
	switch standing {
	case quorum.Counts:
		t.serve(*id)
		return true, nil
	case quorum.Unset, quorum.Confirm:
		if t.existing {
			return false, fmt.Errorf("%w: the quorum was not set up", store.ErrUnavailable)
		}
		if standing == quorum.Confirm {
			return false, confirmIdentity(own, client, want, t.store.nonce)
		}
		return false, createIdentity(own, client, want, t.store.nonce)
	case quorum.Lost:
		return false, fmt.Errorf("%w: re-admit it", errLost)
	case quorum.Foreign:
		return false, fmt.Errorf("%w: it belongs to another quorum: %w", store.ErrInvalid, quorum.Mismatch(want, *id))
	case quorum.Unreached, quorum.Waits:
	}
	return false, nil
}

func (t *tender) timeout() time.Duration { return max(t.store.timeout, time.Second) }

// connect opens the client once.
func (t *tender) connect(ctx context.Context) (store.Store, error) {
	t.server.mu.Lock()
	client := t.server.client
	t.server.mu.Unlock()
	if client != nil {
		return client, nil
	}
	client, err := t.server.spec.Open(ctx)
	if err != nil {
		return nil, err
	}
	if err := fit(client); err != nil {
		return nil, join(err, client.Close(context.WithoutCancel(ctx)))
	}
	t.server.mu.Lock()
	t.server.client = client
	t.server.mu.Unlock()
	return client, nil
}

func (t *tender) serve(id quorum.Identity) {
	t.server.mu.Lock()
	defer t.server.mu.Unlock()
	t.server.id, t.server.counts, t.server.trouble = id, true, nil
	select { // what was doubted before this look is settled
	case <-t.server.leave:
	default:
	}
}

// forgetful are the problems of stores that may forget what they acknowledged, or that could not be looked at.
var forgetful = []string{
	"StoreNotDurable", "StoreNotReplicated", "StoreReplicaLags", "StoreSeveralNodes", "StoreEviction", "StoreClosed",
	"StoreUnchecked",
}

// fit refuses a store that may forget what it acknowledged.
func fit(s store.Store) error {
	for _, p := range store.Problems(s) {
		if slices.Contains(forgetful, p.Reason) {
			return fmt.Errorf("%w: it may forget what it acknowledged, and cannot be part of a quorum: %s: %s",
				store.ErrInvalid, p.Reason, p.Message)
		}
	}
	return nil
}
