package fencetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/fence"
)

// Owners of one key at the same time, each of which writes until it is refused.
const (
	owners  = 6
	entries = 8
)

// What an older owner wrote stands before what a newer one wrote, each entry once, and all that was confirmed.
func together(t *testing.T, s Subject) {
	t.Helper()
	ctx := within(t)
	confirmed := make([][]string, owners+1)
	failures := make([]error, owners+1)
	var all sync.WaitGroup
	begin := make(chan struct{})
	for token := 1; token <= owners; token++ {
		all.Go(func() {
			<-begin
			for i := range entries {
				entry := fmt.Sprintf("%d-%d", token, i)
				if err := s.Write(ctx, fence.Exclusive("k", int64(token)), entry); err != nil {
					failures[token] = err
					return
				}
				confirmed[token] = append(confirmed[token], entry)
			}
		})
	}
	close(begin)
	all.Wait()
	for token, err := range failures {
		if err != nil && !errors.Is(err, fence.ErrOld) {
			t.Errorf("token %d: %v", token, err)
		}
	}
	if len(confirmed[owners]) != entries {
		t.Errorf("the newest owner wrote %d of %d", len(confirmed[owners]), entries)
	}
	s.holds(t, "k", slices.Concat(confirmed...)...)
}

// The first claims of many keys at the same time, all of one owner, make their marks once and pass.
func firstClaims(t *testing.T, s Subject) {
	t.Helper()
	ctx := within(t)
	for key := range 3 * owners {
		failures := make([]error, owners)
		var all sync.WaitGroup
		for i := range owners {
			all.Go(func() { failures[i] = s.Write(ctx, fence.Exclusive(fmt.Sprint("k", key), 7), fmt.Sprint(i)) })
		}
		all.Wait()
		if err := errors.Join(failures...); err != nil {
			t.Error(err)
		}
		if log, err := s.Log(ctx, fmt.Sprint("k", key)); err != nil || len(log) != owners {
			t.Errorf("log of k%d: %q, %v; want %d entries", key, log, err, owners)
		}
	}
}

// Readers never refuse each other, in whatever order they come.
func readersTogether(t *testing.T, s Subject) {
	t.Helper()
	ctx := within(t)
	s.passes(t, fence.Exclusive("k", 1), "0-0")
	failures := make([]error, owners)
	var all sync.WaitGroup
	for reader := range owners {
		all.Go(func() {
			for i := range entries {
				c := fence.Shared("k", int64(2+reader))
				failures[reader] = errors.Join(failures[reader], s.Write(ctx, c, fmt.Sprintf("%d-%d", reader+1, i)))
			}
		})
	}
	all.Wait()
	if err := errors.Join(failures...); err != nil {
		t.Error(err)
	}
	log, err := s.Log(ctx, "k")
	if err != nil || len(log) != 1+owners*entries {
		t.Errorf("%d entries, %v; want %d", len(log), err, 1+owners*entries)
	}
	s.refuses(t, fence.Exclusive("k", owners), fmt.Sprint(owners+1))
}

// overlap is how long an older owner works while a newer one asks. A fence that is wrong has to have the time for it.
const overlap = 500 * time.Millisecond

// While an owner works under a token that was seen before, a newer one does not pass. Where it did, the older one's
// work would count after it.
func newerWaits(t *testing.T, s Subject) {
	t.Helper()
	if s.Fence == nil {
		t.Skip("it does not do work in Go as one step")
	}
	outer := within(t)
	s.passes(t, fence.Exclusive("k", 7), "a")
	var mu sync.Mutex
	var order []string
	note := func(what string) {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, what)
	}
	var all sync.WaitGroup
	var older, newer error
	all.Go(func() {
		older = s.Fence.Do(outer, fence.Exclusive("k", 7), func(ctx context.Context) error {
			if c, ok := fence.FromContext(ctx); !ok || c != fence.Exclusive("k", 7) {
				t.Errorf("the work's context has the claim %v, %t", c, ok)
			}
			asked := make(chan struct{})
			all.Go(func() {
				close(asked)
				newer = s.Fence.Do(outer, fence.Exclusive("k", 8), func(context.Context) error {
					note("newer begins")
					return nil
				})
			})
			<-asked
			// Nothing shows that the newer one waits: it gets the time to be wrong.
			select {
			case <-ctx.Done():
			case <-time.After(overlap):
			}
			note("older ends")
			return nil
		})
	})
	all.Wait()
	if newer != nil {
		t.Errorf("newer: %v", newer)
	}
	if older == nil && !slices.Equal(order, []string{"older ends", "newer begins"}) {
		t.Errorf("both passed, in the order %q", order)
	}
	s.refuses(t, fence.Exclusive("k", 7), "8")
}

func failedWork(t *testing.T, s Subject) {
	t.Helper()
	if s.Fence == nil {
		t.Skip("it does not do work in Go as one step")
	}
	ctx := within(t)
	broken := errors.New("broken")
	if err := s.Fence.Do(ctx, fence.Exclusive("k", 7), func(context.Context) error { return broken }); !errors.Is(err,
		broken) {
		t.Errorf("%v, want that of the work", err)
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic of the work was swallowed")
			}
		}()
		_ = s.Fence.Do(ctx, fence.Exclusive("k", 7), func(context.Context) error { panic("work") })
	}()
	s.refuses(t, fence.Exclusive("k", 6), "7") // a token counts once it was shown
	s.passes(t, fence.Exclusive("k", 7), "a")
	s.holds(t, "k", "a")
}
