package quorum

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/ballot"
	"github.com/shardctl/shardctl/pkg/store/internal/dbstore"
)

// members are the servers of one quorum, with what is known of their identities. Its methods may be called
// concurrently.
type members struct {
	all     []*server
	life    *dbstore.Life
	timeout time.Duration // of requests
	log     logr.Logger
	found   foundTable
	serial  atomic.Int64
}

// newMembers has the servers looked at, without waiting for any.
func newMembers(ctx context.Context, o Options) (*members, error) {
	o, err := o.read()
	if err != nil {
		return nil, err
	}
	n := len(o.Servers)
	m := &members{
		life: dbstore.NewLife(ctx, o.Timeout), timeout: o.Timeout, log: o.Logger, found: foundTable{
			want: ballot.Identity{Cluster: o.Cluster, Members: o.members()}, all: make([]ballot.Found, n),
			errs: make([]error, n), changed: make(chan struct{}),
		},
	}
	m.serial.Store(rand.Int64N(1 << 52)) //nolint:gosec // it distinguishes writes
	for i, spec := range o.Servers {
		m.all = append(m.all, newServer(i, spec))
	}
	for _, at := range m.all {
		t := &tender{members: m, server: at}
		m.life.Go(func() { t.run(m.life.Context()) }) //nolint:contextcheck // it lives as long as the store
	}
	return m, nil
}

// majority is how many of the servers decide.
func (m *members) majority() int { return ballot.Majority(len(m.all)) }

// nonce is a number that distinguishes the writes of this store.
func (m *members) nonce() int64 { return m.serial.Add(1) }

// identities reads the identities of all servers, one after the other.
func (m *members) identities(ctx context.Context) ([]ballot.Found, error) {
	found := make([]ballot.Found, len(m.all))
	for i, at := range m.all {
		id, _, err := readIdentity(ctx, at.connected())
		if err != nil {
			return nil, fmt.Errorf("server %d: %w", i+1, err)
		}
		found[i] = ballot.Found{Reached: true, ID: id}
	}
	return found, nil
}

// await waits until so many servers count, or never will.
func (m *members) await(ctx context.Context, need int) error {
	for {
		changed, never := m.found.permanentError(need)
		serve := 0
		var why []error
		for _, at := range m.all {
			if _, _, err := at.serving(); err == nil {
				serve++
			} else {
				why = append(why, fmt.Errorf("server %d: %w", at.index+1, err))
			}
		}
		switch {
		case serve >= need:
			return nil
		case never != nil:
			return never
		}
		select {
		case <-changed:
		case <-ctx.Done():
			why = append(why, context.Cause(ctx))
			return fmt.Errorf("%w: %d of %d servers count, want %d: %w", driver.ErrUnavailable, serve, len(m.all), need,
				join(why...))
		}
	}
}

// foundTable is the identities of all servers, as they were last seen.
type foundTable struct {
	mu      sync.Mutex
	want    ballot.Identity // of the quorum; its incarnation is kept once it is known
	all     []ballot.Found
	errs    []error
	changed chan struct{}
}

// set notes one server, and says how it stands among all as they are known, and what its identity should be.
func (f *foundTable) set(i int, found ballot.Found, err error) (ballot.Standing, ballot.Identity) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all[i], f.errs[i] = found, err
	if f.want.Incarnation == "" {
		f.want.Incarnation = ballot.Incarnation(f.want, f.all)
	}
	f.wake()
	want := f.want
	want.Index = i
	return ballot.Admission(f.want, f.all)[i], want
}

// permanent says that it is no use to try again.
func permanent(err error) bool {
	return errors.Is(err, driver.ErrInvalid) || errors.Is(err, driver.ErrSchema)
}

// identities are what the servers' should be, and how these stand as they were last seen.
func (f *foundTable) identities() (want ballot.Identity, standings []ballot.Standing) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.want, ballot.Admission(f.want, f.all)
}

// looked waits until a server was looked at.
func (f *foundTable) looked(ctx context.Context, i int) error {
	for {
		f.mu.Lock()
		reached, err, changed := f.all[i].Reached, f.errs[i], f.changed
		f.mu.Unlock()
		switch {
		case reached:
			return nil
		case permanent(err):
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", driver.ErrUnavailable, join(err, context.Cause(ctx)))
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

// permanentError is why it is no use to wait: too many servers will not do, or all say that the quorum was not set up.
// changed is closed with the next change.
func (f *foundTable) permanentError(need int) (changed <-chan struct{}, why error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	unset, fatal := 0, 0
	var errs []error
	for i, standing := range ballot.Admission(f.want, f.all) {
		if standing == ballot.Unset {
			unset++
		}
		if permanent(f.errs[i]) {
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
