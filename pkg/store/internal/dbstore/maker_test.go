package dbstore_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/pkg/store/internal/dbstore"
)

// callTime is that of a call of these tests.
const callTime = 300 * time.Millisecond

var errRefused = errors.New("too many clients")

// rig is a database whose connections are numbers.
type rig struct {
	*dbstore.Maker[int]

	takes     time.Duration // to connect
	discarded []int

	mu      sync.Mutex
	refuses error
	dials   []time.Time
	atOnce  int
}

// dialled are the attempts up to now.
func (r *rig) dialled() []time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.dials)
}

// refuse has attempts fail from now on; nil: succeed.
func (r *rig) refuse(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refuses = err
}

// begin takes note of an attempt. It returns its number, whether it is the only one, and how it ends.
func (r *rig) begin() (n int, alone bool, ends error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.atOnce++
	r.dials = append(r.dials, time.Now())
	return len(r.dials), r.atOnce == 1, r.refuses
}

func (r *rig) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.atOnce--
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{}
	limit := dbstore.Limit(callTime)
	r.Maker = dbstore.NewMaker(t.Context(), callTime, limit, func(ctx context.Context, _ int) (int, error) {
		n, alone, ends := r.begin()
		defer r.end()
		if !alone {
			t.Error("two attempts at once")
		}
		select {
		case <-time.After(r.takes):
			return n, ends
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}, func(c int) { r.discarded = append(r.discarded, c) })
	t.Cleanup(r.Close)
	return r
}

// call is one of a store: it has as much time as a call has.
func (r *rig) call() (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), callTime)
	defer cancel()
	return r.Get(ctx, false)
}

// What takes longer than a call is there for a later one, and was dialled once.
func TestConnectionOutlivesTheCallThatWantedIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.takes = 5 * callTime / 2
		for n := 1; ; n++ {
			c, err := r.call()
			if err == nil {
				if c != 1 || n != 3 {
					t.Errorf("call %d has got connection %d, want the third to get the first", n, c)
				}
				break
			}
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("call %d: %v", n, err)
			}
		}
		if len(r.dialled()) != 1 {
			t.Errorf("dialled %d times", len(r.dialled()))
		}
	})
}

// A call that has nearly ended leaves what is made to the next one: each would give up the connection of its own.
func TestConnectionForACallThatHasNearlyEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.takes = callTime * 9 / 10
		if _, err := r.call(); err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a call with a tenth of its time left: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), callTime/10)
		defer cancel()
		if _, err := r.Get(ctx, false); err == nil {
			t.Error("a call that is as short has got it")
		}
		if c, err := r.call(); c != 1 || err != nil {
			t.Errorf("the next one has got %d, %v", c, err)
		}
		r.takes = callTime / 2
		if c, err := r.call(); c != 2 || err != nil {
			t.Errorf("a call with half of its time left has got %d, %v", c, err)
		}
	})
}

// What no one has waited for is kept for the next call, given up for a fresh one, and given up at the end.
func TestConnectionThatNobodyTook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.takes = 2 * callTime
		if _, err := r.call(); err == nil {
			t.Fatal("a call has got what takes longer")
		}
		time.Sleep(r.takes)
		if c, err := r.call(); c != 1 || err != nil {
			t.Fatalf("the next call has got %d, %v", c, err)
		}
		_, _ = r.call() // takes too long as well
		time.Sleep(r.takes)
		r.Fresh()
		_, _ = r.call()
		time.Sleep(r.takes)
		r.Close()
		if want := []int{2, 3}; len(r.discarded) != 2 || r.discarded[0] != want[0] || r.discarded[1] != want[1] {
			t.Errorf("given up are %v, want %v", r.discarded, want)
		}
		if _, err := r.call(); !errors.Is(err, dbstore.ErrClosed) {
			t.Errorf("after the end: %v", err)
		}
	})
}

// However many calls want a connection from a server that has none left, it is asked rarely, and each call is told why.
func TestPausesOfAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.refuse(errRefused)
		began := time.Now()
		var calls sync.WaitGroup
		for range 20 {
			calls.Go(func() {
				for time.Since(began) < time.Minute {
					if _, err := r.call(); !errors.Is(err, errRefused) {
						t.Errorf("a call was told %v", err)
					}
				}
			})
		}
		calls.Wait()
		if n := len(r.dialled()); n > 60*1000/300+6 {
			t.Errorf("%d attempts within a minute", n)
		}
		for i := 1; i < len(r.dialled()); i++ {
			pause := r.dialled()[i].Sub(r.dialled()[i-1])
			if least := min(20*time.Millisecond<<min(i-1, 10), callTime); pause < least || pause > least+20*time.Millisecond {
				t.Errorf("attempt %d came %v after the one before, want %v", i, pause, least)
			}
		}
		r.refuse(nil)
		time.Sleep(time.Second)
		if _, err := r.call(); err != nil {
			t.Errorf("once there is one: %v", err)
		}
	})
}

// A connection that fails at its first call is an attempt that failed; one that has served ends the pauses.
func TestConnectionsThatServeNoCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		for range 6 {
			if _, err := r.Get(t.Context(), false); err != nil {
				t.Fatal(err)
			}
			r.Spoiled(errRefused)
		}
		if took := r.dialled()[5].Sub(r.dialled()[0]); took < (20+40+80+160+300)*time.Millisecond {
			t.Errorf("six attempts within %v", took)
		}
		r.Served()
		began := time.Now()
		if _, err := r.call(); err != nil || time.Since(began) > 0 {
			t.Errorf("after a call was served a connection took %v: %v", time.Since(began), err)
		}
	})
}

// Sessions come before all others that wait, in the order in which they came.
func TestOrderOfThoseWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.takes = time.Second
		var mu sync.Mutex
		var calls sync.WaitGroup
		got := map[string]int{}
		for _, who := range []string{"a", "b", "session", "session 2"} {
			calls.Go(func() {
				c, err := r.Get(t.Context(), len(who) > 1)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				got[who] = c
			})
			synctest.Wait()
		}
		calls.Wait()
		// The first of all had an attempt begun, which goes to whoever is first when it ends.
		if got["session"] != 1 || got["session 2"] != 2 || got["a"] != 3 || got["b"] != 4 {
			t.Errorf("connections are %v", got)
		}
	})
}

// The end of a store ends the attempt that is under way, and all who wait for it.
func TestEndOfTheMaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.takes = time.Hour
		failed := make(chan error, 1)
		go func() {
			_, err := r.Get(t.Context(), false)
			failed <- err
		}()
		synctest.Wait()
		r.Close()
		if err := <-failed; !errors.Is(err, dbstore.ErrClosed) {
			t.Errorf("who waited was told %v", err)
		}
	})
}

// An attempt ends by itself, and the next one follows.
func TestAttemptThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.takes = time.Hour
		_, err := r.Get(t.Context(), false)
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(r.dialled()[0]) != dbstore.Limit(callTime) {
			t.Errorf("after %v: %v", time.Since(r.dialled()[0]), err)
		}
		_, err = r.call()
		if !errors.Is(err, context.DeadlineExceeded) || len(r.dialled()) != 2 {
			t.Errorf("after %d attempts: %v", len(r.dialled()), err)
		}
	})
}
