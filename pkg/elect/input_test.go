package elect_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/internal/electing"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/memory"
)

// What no store would take is refused where it is given: in a batch it would hold up every other key, for ever.
func TestBadInputIsRefusedAndDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, rec := memory.New(), newRecorder(t)
		a := startNode(t, db, "a")
		long := strings.Repeat("x", elect.MaxText+1)
		for name, key := range map[string]elect.Key{
			"empty": "", "NUL": "g/\x00", "not UTF-8": "g/\xff", "too long": elect.NewKey("g", long),
		} {
			if ok, err := a.Lock(t.Context(), key, rec.hold("a")); ok || err == nil {
				t.Errorf("%s: Lock = %v, %v", name, ok, err)
			}
			if err := a.Claim(
				t.Context(), []elect.Key{key}, elect.LockOptions{},
				func(elect.Key) elect.Runnable { return elect.Go(rec.hold("a")) },
			); err == nil {
				t.Errorf("%s: Claim took it", name)
			}
		}
		for name, opts := range map[string]elect.LockOptions{
			"message": {Message: long}, "reason": {Reason: elect.Reason(long)},
		} {
			if ok, err := a.LockWith(t.Context(), "g/k", opts, rec.hold("a")); ok ||
				!errors.Is(err, elect.ErrTooLarge) ||
				!strings.Contains(err.Error(), name) {
				t.Errorf("a long %s: %v, %v", name, ok, err)
			}
		}
		mustLock(t, a, "g/k", func(ctx context.Context, l *elect.Lease) error {
			status := elect.TaskStatus{State: "running", LastError: long}
			l.Report(status)
			if _, err := l.Advance(ctx, status); !errors.Is(err, elect.ErrTooLarge) {
				t.Errorf("Advance with a long text: %v", err)
			}
			<-ctx.Done()
			return nil
		})
		time.Sleep(lease)
		if err := a.Unlock(t.Context(), "g/k"); err != nil {
			t.Fatal(err)
		}
		a.stop()
	})
	_, err := elect.New(elect.Config{Store: memory.New(), Member: elect.Member{
		Instance: "a", Labels: map[string]string{"x": strings.Repeat("x", driver.MaxBody)},
	}})
	if !errors.Is(err, elect.ErrTooLarge) {
		t.Errorf("a member too large for any store: %v", err)
	}
}

func TestMalformedLockIsTakenAndRepaired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, rec := memory.New(), newRecorder(t)
		doc := driver.Doc{
			Kind: driver.KindLock, ID: "g/k", Group: "g", Rev: 3, WriterID: driver.WriterID{Session: "hand", Seq: 1},
			Body: []byte(`{"token":"seven"}`),
		}
		if _, err := db.Apply(t.Context(), driver.Change{Doc: doc}); err != nil {
			t.Fatal(err)
		}
		a := startNode(t, db, "a")
		mustLock(t, a, "g/k", rec.hold("a"))
		a.stop()
	})
}

// A context is honoured also while the answer to the claim is awaited; the claim itself is seen through.
func TestLockGivesUpWithItsContext(t *testing.T) {
	for name, test := range map[string]struct {
		verdict memory.Verdict
		opts    elect.LockOptions
	}{
		"the claim hangs":    {memory.Verdict{Fault: memory.Hang}, elect.LockOptions{}},
		"its answer is lost": {memory.Verdict{Fault: memory.LoseAnswer}, elect.LockOptions{}},
		"it hangs and the wait is over": {
			memory.Verdict{Fault: memory.Hang}, elect.LockOptions{Wait: 2 * time.Second},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db, rec := memory.New(), newRecorder(t)
				a := startNode(t, db, "a")
				eventually(t, lease, "open", func() bool { return a.View().Open })
				a.store.Fault(func(c memory.Call) memory.Verdict {
					if c.Op == memory.OpApply && c.Changes[0].Doc.Kind == driver.KindLock {
						return test.verdict
					}
					return memory.Verdict{}
				})
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				defer cancel()
				begin := time.Now()
				ok, err := a.LockWith(ctx, "g/k", test.opts, rec.hold("a"))
				if ok || test.opts.Wait == 0 && !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("Lock = %v, %v", ok, err)
				}
				if took := time.Since(begin); took > 3100*time.Millisecond {
					t.Errorf("returned after %v", took)
				}
				a.heal()
				time.Sleep(lease)
				if rec.started() != 0 {
					t.Error("it ran although it is not waited for")
				}
				if _, held, err := a.Holder(t.Context(), "g/k"); held || err != nil {
					t.Errorf("still held: %v, %v", held, err)
				}
				a.stop()
			})
		})
	}
}

// Lock tries once: while the store is away it says so after the lease duration, wherever it was.
func TestLockWhileTheStoreIsAway(t *testing.T) {
	for name, away := range map[string]time.Duration{"for a moment": 0, "for long": 2 * lease} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rec := newRecorder(t)
				a := startNode(t, memory.New(), "a")
				time.Sleep(lease)
				a.cut()
				time.Sleep(away)
				begin := time.Now()
				ok, err := a.Lock(t.Context(), "g/k", rec.hold("a"))
				if took := time.Since(begin); ok || !errors.Is(err, elect.ErrUnavailable) || took > lease+lease/10 {
					t.Errorf("Lock = %v, %v after %v", ok, err, took)
				}
				a.heal()
				time.Sleep(2 * lease)
				if _, held, err := a.Holder(t.Context(), "g/k"); held || err != nil || rec.started() != 0 {
					t.Errorf("afterwards: held %v, %v; started %d times", held, err, rec.started())
				}
				a.stop()
			})
		})
	}
}

// However the end of a wait falls, that another holds the key is no error.
func TestEndOfAWaitIsNoError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, rec := memory.New(), newRecorder(t)
		a, b := startNode(t, db, "a"), startNode(
			t, db, "b", func(c *elect.Config) { c.Member.Caps = map[string]int{"full": 0} },
		)
		b.store.Fault(func(memory.Call) memory.Verdict {
			return memory.Verdict{Delay: 20 * time.Millisecond, AnswerDelay: 20 * time.Millisecond}
		})
		mustLock(t, a, "g/k", rec.hold("a"))
		eventually(t, lease, "open", func() bool { return b.View().Open })
		_, _ = b.Lock(t.Context(), "g/k", rec.hold("b")) // b knows a's session from here on
		for wait := 50 * time.Millisecond; wait < 500*time.Millisecond; wait += 7 * time.Millisecond {
			if ok, err := b.LockWith(t.Context(), "g/k", elect.LockOptions{Wait: wait}, rec.hold("b")); ok ||
				err != nil {
				t.Errorf("after %v: %v, %v", wait, ok, err)
			}
			if ok, err := b.LockWith(t.Context(), "full/k", elect.LockOptions{Wait: wait}, rec.hold("b")); ok ||
				!errors.Is(err, elect.ErrCapReached) {
				t.Errorf("without free capacity, after %v: %v, %v", wait, ok, err)
			}
		}
		a.stop()
		b.stop()
	})
}

// What no document holds is refused where it is given. The session stays as it was, and its keys wait for its lease.
func TestTooManyRemoteLeasesAreRefused(t *testing.T) {
	db := memory.New()
	remote := map[elect.Key]time.Duration{}
	for i := range 5_000 {
		remote[elect.NewKey("group", fmt.Sprintf("task-with-a-name-%05d", i))] = time.Second
	}
	dead := electing.Session{ID: "s", Remote: remote}
	if err := electing.MarkDead(t.Context(), db, dead); !errors.Is(err, driver.ErrTooLarge) {
		t.Errorf("%v, want %v", err, driver.ErrTooLarge)
	}
	if res, err := db.Read(t.Context(), driver.KindSession, "s"); err != nil || len(res.Docs) != 0 {
		t.Errorf("written: %+v, %v", res.Docs, err)
	}
	left := map[elect.Key]time.Duration{"group/one": time.Second + 1}
	if err := electing.MarkDead(t.Context(), db, electing.Session{ID: "s", Remote: left}); err != nil {
		t.Error(err)
	}
	res, err := db.Read(t.Context(), driver.KindSession, "s")
	if err != nil {
		t.Fatal(err)
	}
	if s, err := record.SessionFrom(res.Docs[0]); err != nil || s.Remote["group/one"] != 1001 {
		t.Errorf("%v, %v: want the time that is left, rounded up to milliseconds", s.Remote, err)
	}
}
