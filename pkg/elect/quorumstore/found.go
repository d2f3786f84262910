package quorumstore

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/shardctl/shardctl/pkg/elect/internal/quorum"
	"github.com/shardctl/shardctl/pkg/elect/store"
)

// foundTable is the identities of all servers, as they were last seen.
type foundTable struct {
	want quorum.Identity // of the quorum; its incarnation is what this process would make

	mu      sync.Mutex
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

// set notes one server, and says how it stands among all as they are known.
func (f *foundTable) set(i int, found quorum.Found, err error) (quorum.Standing, string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all[i], f.errs[i] = found, err
	f.fatal[i] = errors.Is(err, store.ErrInvalid) || errors.Is(err, store.ErrSchema)
	f.wake()
	made, _ := quorum.Incarnation(f.want.Incarnation, f.all)
	return quorum.Admission(f.want, f.all)[i], made
}

// standings are those of all servers, as they were last seen.
func (f *foundTable) standings() []quorum.Standing {
	f.mu.Lock()
	defer f.mu.Unlock()
	return quorum.Admission(f.want, f.all)
}

// incarnation is that of the quorum.
func (f *foundTable) incarnation() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	made, _ := quorum.Incarnation(f.want.Incarnation, f.all)
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

// await waits until so many servers count, or never will.
func (f *foundTable) await(ctx context.Context, servers []*server, need int) error {
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
