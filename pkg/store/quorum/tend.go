package quorum

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/shardctl/shardctl/pkg/internal/sleep"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/internal/quorum"
)

// Pauses between looks at a server that does not count.
const (
	firstTend = 20 * time.Millisecond
	lastTend  = 2 * time.Second
)

// When the settings of a server that counts are looked at again: regularly, and a while after a call has failed, since
// the server may have been restarted.
const (
	inspectEvery = 2 * time.Minute
	inspectSoon  = 10 * time.Second
)

// tender keeps one server connected, and has it count when its identity allows that.
type tender struct {
	store  *Store
	server *server
}

// run ends with ctx.
func (t *tender) run(ctx context.Context) {
	wait := firstTend
	for ctx.Err() == nil {
		serves, err := t.admit(ctx)
		if serves {
			wait = firstTend
			t.store.found.served()
			t.watch(ctx)
			continue
		}
		t.server.mu.Lock()
		t.server.trouble = err
		t.server.mu.Unlock()
		t.store.log.V(1).Info("A server of the quorum does not count", "store", t.server.spec.Name, "error",
			err.Error())
		_ = sleep.For(ctx, wait) // the loop looks at ctx
		wait = min(2*wait, lastTend)
	}
}

// watch looks at the settings of a server that counts, now and then. It ends with ctx, or when the server is doubted.
func (t *tender) watch(ctx context.Context) {
	next := time.NewTimer(inspectEvery)
	defer next.Stop()
	for soon := false; ; {
		select {
		case <-ctx.Done():
			return
		case <-t.server.leave:
			return
		case <-t.server.failed:
			if !soon {
				soon = true
				next.Reset(inspectSoon)
			}
		case <-next.C:
			wait := inspectEvery
			if soon = t.inspect(ctx) != nil; soon {
				wait = inspectSoon
			}
			next.Reset(wait)
		}
	}
}

// inspect doubts a server that may forget what it acknowledged: its client is opened again, which fails as long as that
// is so. The error says that the server did not answer.
func (t *tender) inspect(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, t.timeout())
	defer cancel()
	client, _, err := t.server.serving()
	if err != nil {
		return err
	}
	found, err := store.Inspect(ctx, client)
	if err != nil {
		return err
	}
	for _, s := range found.Settings {
		if s.Forgets && !s.Holds {
			why := fmt.Errorf("%w: %s is %s, want %s", errForgets, s.Name, s.Value, s.Want)
			t.store.log.Info("A server of the quorum does not count", "store", t.server.spec.Name, "error", why.Error())
			t.server.reconnect(why)
			return nil
		}
	}
	return nil
}

// admit connects the server and looks at its identity. serves: it counts. Else the error says why not.
func (t *tender) admit(ctx context.Context) (serves bool, err error) {
	own, cancel := context.WithTimeout(ctx, t.timeout())
	defer cancel()
	var id *quorum.Identity
	client, err := t.connect(own)
	if err == nil {
		var history string
		id, history, err = readIdentity(own, client)
		t.server.mu.Lock()
		t.server.history = history
		t.server.mu.Unlock()
	}
	standing, want := t.store.found.set(t.server.index, quorum.Found{Reached: err == nil, ID: id}, err)
	switch standing {
	case quorum.Counts:
		t.serve(*id)
		return true, nil
	case quorum.Unset:
		return false, errNotSetUp
	case quorum.Lost:
		return false, fmt.Errorf("%w: re-admit it", errLost)
	case quorum.Foreign:
		return false, fmt.Errorf("%w: it belongs to another quorum: %w", store.ErrInvalid, quorum.Mismatch(want, *id))
	case quorum.Waits:
		return false, errFew
	case quorum.Unreached:
	}
	return false, err
}

func (t *tender) timeout() time.Duration { return max(t.store.timeout, time.Second) }

// connect opens the client once, and again where its server was restarted: what may forget is refused each time.
func (t *tender) connect(ctx context.Context) (store.Store, error) {
	t.server.mu.Lock()
	old, reopen := t.server.client, t.server.reopen
	t.server.mu.Unlock()
	if old != nil && !reopen {
		return old, nil
	}
	client, err := t.server.spec.Open(ctx)
	if err != nil {
		return nil, err
	}
	if err := fit(client); err != nil {
		return nil, join(err, client.Close(context.WithoutCancel(ctx)))
	}
	t.server.mu.Lock()
	t.server.client, t.server.reopen = client, false
	t.server.mu.Unlock()
	if old != nil {
		_ = old.Close(context.WithoutCancel(ctx)) // what is under way on it counts for nothing any more
	}
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

var errForgets = fmt.Errorf("%w: it may forget what it acknowledged, and cannot be part of a quorum", store.ErrInvalid)

// fit refuses a store that may forget what it acknowledged.
func fit(s store.Store) error {
	for _, p := range store.Problems(s) {
		if slices.Contains(forgetful, p.Reason) {
			return fmt.Errorf("%w: %s: %s", errForgets, p.Reason, p.Message)
		}
	}
	return nil
}

// foundTable is the identities of all servers, as they were last seen.
type foundTable struct {
	mu      sync.Mutex
	want    quorum.Identity // of the quorum; its incarnation is kept once it is known
	all     []quorum.Found
	errs    []error
	fatal   []bool // it is no use to try again
	changed chan struct{}
}

func (f *foundTable) begin(want quorum.Identity, n int) {
	f.want = want
	f.all, f.errs, f.fatal = make([]quorum.Found, n), make([]error, n), make([]bool, n)
	f.changed = make(chan struct{})
}

// set notes one server, and says how it stands among all as they are known, and what its identity should be.
func (f *foundTable) set(i int, found quorum.Found, err error) (quorum.Standing, quorum.Identity) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all[i], f.errs[i] = found, err
	f.fatal[i] = errors.Is(err, store.ErrInvalid) || errors.Is(err, store.ErrSchema)
	if f.want.Incarnation == "" {
		f.want.Incarnation = quorum.Incarnation(f.want, f.all)
	}
	f.wake()
	want := f.want
	want.Index = i
	return quorum.Admission(f.want, f.all)[i], want
}

// identities are what the servers' should be, and how these stand as they were last seen.
func (f *foundTable) identities() (want quorum.Identity, standings []quorum.Standing) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.want, quorum.Admission(f.want, f.all)
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

// await waits until so many servers count, or never will.
func (f *foundTable) await(ctx context.Context, servers []*server, need int) error {
	for {
		changed, permanentError := f.permanentError(need)
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
		case permanentError != nil:
			return permanentError
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%w: %d of %d servers count, want %d: %w", store.ErrUnavailable, serve, len(servers),
				need,
				join(append(why, context.Cause(ctx))...))
		}
	}
}

// permanentError is why it is no use to wait: too many servers will not do, or all say that the quorum was not set up.
// changed is closed with the next change.
func (f *foundTable) permanentError(need int) (changed <-chan struct{}, why error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	unset, fatal := 0, 0
	var errs []error
	for i, standing := range quorum.Admission(f.want, f.all) {
		if standing == quorum.Unset {
			unset++
		}
		if f.fatal[i] {
			fatal++
			errs = append(errs, fmt.Errorf("server %d: %w", i+1, f.errs[i]))
		}
	}
	switch n := len(f.all); {
	case n-fatal < need:
		why = join(errs...)
	case unset > 0 && unset+fatal == n:
		why = join(append(errs, errNotSetUp)...)
	}
	return f.changed, why
}

var errFew = fmt.Errorf("%w: no majority of servers has shown one identity yet", store.ErrUnavailable)

var errNotSetUp = fmt.Errorf("%w: the quorum was not set up: run shardctl store init", store.ErrUnavailable)
