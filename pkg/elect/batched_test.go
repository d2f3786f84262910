package elect_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/pkg/elect"
)

// slowValue is a Checkpoint in memory whose writes take a while.
type slowValue struct {
	takes time.Duration
	mu    sync.Mutex
	kept  []string // one after the other
	err   error
}

func (s *slowValue) Value(context.Context) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return []byte(s.kept[len(s.kept)-1]), s.err
}

func (s *slowValue) SetValue(_ context.Context, value []byte) error {
	time.Sleep(s.takes)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.kept = append(s.kept, string(value))
	}
	return s.err
}

func (s *slowValue) writes() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.kept)
}

func TestBatchedSetsShareWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const every, takes = time.Second, 10 * time.Millisecond
		of := &slowValue{takes: takes}
		b := elect.NewBatched(of, every)
		var all sync.WaitGroup
		set := func(value string, at time.Duration) {
			begin := time.Now()
			all.Go(func() {
				mustSet(t, b, value)
				if took := time.Since(begin); took != at {
					t.Errorf("%s was kept after %v, want %v", value, took, at)
				}
			})
			synctest.Wait() // in this order
		}
		set("1", takes)
		for i := 2; i <= 5; i++ {
			set(fmt.Sprint(i), every+takes)
		}
		all.Wait()
		time.Sleep(2 * every)
		set("6", takes)
		all.Wait()
		if got := of.writes(); !slices.Equal(got, []string{"1", "5", "6"}) {
			t.Errorf("written: %v", got)
		}
		wantValue(t, b, "6")
	})
}

// Without an interval those share a write that come while another is under way.
func TestBatchedWithoutInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of := &slowValue{takes: 1050 * time.Millisecond}
		b := elect.NewBatched(of, 0)
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() { mustSet(t, b, fmt.Sprint(i)) })
			synctest.Wait()
			time.Sleep(100 * time.Millisecond)
		}
		all.Wait()
		if got := of.writes(); !slices.Equal(got, []string{"0", "10", "19"}) {
			t.Errorf("written: %v", got)
		}
	})
}

func TestBatchedFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of := &slowValue{}
		b := elect.NewBatched(of, time.Hour)
		b.Flush() // nothing waits
		mustSet(t, b, "1")
		done := make(chan struct{})
		begin := time.Now()
		go func() {
			defer close(done)
			mustSet(t, b, "2")
		}()
		synctest.Wait()
		b.Flush()
		b.Flush()
		<-done
		if took := time.Since(begin); took != 0 {
			t.Errorf("kept after %v", took)
		}
	})
}

func TestBatchedErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of := &slowValue{}
		b := elect.NewBatched(of, time.Second)
		mustSet(t, b, "1")
		if err := b.SetValue(t.Context(), make([]byte, elect.MaxValue+1)); !errors.Is(err, elect.ErrTooLarge) {
			t.Errorf("too large: %v", err)
		}

		ctx, cancel := context.WithCancelCause(t.Context())
		gone := errors.New("gone")
		value := []byte("2")
		var all sync.WaitGroup
		all.Go(func() {
			if err := b.SetValue(ctx, value); !errors.Is(err, gone) {
				t.Errorf("with a context that ends: %v", err)
			}
		})
		synctest.Wait()
		cancel(gone)
		all.Wait()
		copy(value, "x")
		time.Sleep(2 * time.Second)
		wantValue(t, b, "2") // who waits no longer does not undo it

		of.mu.Lock()
		of.err = elect.ErrLeaseLost
		of.mu.Unlock()
		for range 3 {
			all.Go(func() { wantLost(t, "SetValue", b.SetValue(t.Context(), []byte("3"))) })
		}
		all.Wait()
		if got := of.writes(); !slices.Equal(got, []string{"1", "2"}) {
			t.Errorf("written: %v", got)
		}
		if _, err := b.Value(t.Context()); !errors.Is(err, elect.ErrLeaseLost) {
			t.Errorf("Value = %v", err)
		}
	})
}

// The values of a lease, and what is shared, go together.
func TestBatchedOfALease(t *testing.T) {
	valueTest(t, func(in bubble) {
		t, db, a := in.t, in.db, in.a
		underLock(t, a, func(l *elect.Lease) {
			b := elect.NewBatched(l, 100*time.Millisecond)
			wantValue(t, b, "")
			calls := countValueCalls(a, nil)
			var all sync.WaitGroup
			for i := range 100 {
				all.Go(func() { mustSet(t, b, fmt.Sprint(i)) })
				time.Sleep(10 * time.Millisecond)
			}
			all.Wait()
			if n := calls.writes.Load(); n < 9 || n > 12 {
				t.Errorf("%d writes for 100 values in a second, want one in 100 ms", n)
			}
			wantValue(t, b, "99")
			if !bytes.Equal(valueDoc(t, db).Body, []byte("99")) {
				t.Error("the last value is not kept")
			}
		})
	})
}
