package elect_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/memory"
)

// valueCalls counts a client's calls that concern values, and decides over their faults.
type valueCalls struct {
	reads, writes atomic.Int64
	verdict       func(memory.Call) memory.Verdict // nil: all go well
}

func countValueCalls(n *node, verdict func(memory.Call) memory.Verdict) *valueCalls {
	c := &valueCalls{verdict: verdict}
	n.store.Fault(func(call memory.Call) memory.Verdict {
		switch {
		case call.Op == memory.OpRead && call.Kind == driver.KindValue:
			c.reads.Add(1)
		case call.Op == memory.OpApply && call.Changes[0].Doc.Kind == driver.KindValue:
			c.writes.Add(1)
		default:
			return memory.Verdict{}
		}
		if c.verdict == nil {
			return memory.Verdict{}
		}
		return c.verdict(call)
	})
	return c
}

func (c *valueCalls) want(t *testing.T, what string, reads, writes int64) {
	t.Helper()
	if r, w := c.reads.Swap(0), c.writes.Swap(0); r != reads || w != writes {
		t.Errorf("%s: %d reads and %d writes, want %d and %d", what, r, w, reads, writes)
	}
}

func wantValue(t *testing.T, c elect.Checkpoint, want string) {
	t.Helper()
	if got, err := c.Value(t.Context()); string(got) != want || err != nil {
		t.Errorf("Value = %.40q, %v; want %.40q", got, err, want)
	}
}

func mustSet(t *testing.T, c elect.Checkpoint, value string) {
	t.Helper()
	if err := c.SetValue(t.Context(), []byte(value)); err != nil {
		t.Errorf("SetValue(%.40q): %v", value, err)
	}
}

func wantLost(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, elect.ErrLeaseLost) {
		t.Errorf("%s: %v, want ErrLeaseLost", what, err)
	}
}

// valueDoc is the document of the value of g/k.
func valueDoc(t *testing.T, db store.Store) driver.Doc {
	t.Helper()
	reply, err := db.Read(t.Context(), driver.KindValue, "g/k")
	if err != nil || len(reply.Docs) != 1 {
		t.Fatalf("read the value: %v, %v", reply.Docs, err)
	}
	return reply.Docs[0]
}

// underLock has one elector run work under the lock of g/k, to its end.
func underLock(t *testing.T, n *node, work func(*elect.Lease)) {
	t.Helper()
	done := make(chan struct{})
	run := func(_ context.Context, l *elect.Lease) error { defer close(done); work(l); return nil }
	ok, err := n.LockWith(t.Context(), "g/k", elect.LockOptions{WaitForever: true}, run)
	if !ok || err != nil {
		t.Fatalf("Lock = %v, %v", ok, err)
	}
	<-done
}

// bubble is what a test of values has in its bubble: a store, and one elector.
type bubble struct {
	t  *testing.T
	db *memory.Store
	a  *node
}

func valueTest(t *testing.T, work func(in bubble)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		a := startNode(t, db, "a")
		work(bubble{t, db, a})
		a.heal()
		a.stop()
	})
}

func TestValueCostsOneWriteATokenAndOneASet(t *testing.T) {
	valueTest(t, func(in bubble) {
		t, db, a := in.t, in.db, in.a
		underLock(t, a, func(l *elect.Lease) {
			calls := countValueCalls(a, nil)
			wantValue(t, l, "")
			calls.want(t, "the first Value", 1, 1)
			if d := valueDoc(t, db); d.Count != l.Token() || d.Group != "g" {
				t.Errorf("after the first Value: %+v, want the token %d", d, l.Token())
			}
			wantValue(t, l, "")
			calls.want(t, "another Value", 1, 0)
			mustSet(t, l, "7")
			calls.want(t, "SetValue", 0, 1)
			wantValue(t, l, "7")
		})
		underLock(t, a, func(l *elect.Lease) {
			calls := countValueCalls(a, nil)
			mustSet(t, l, "8")
			calls.want(t, "SetValue without a Value before", 1, 1)
			wantValue(t, l, "8")
			calls.want(t, "Value after it", 1, 0)
		})
		underLock(t, a, func(l *elect.Lease) { wantValue(t, l, "8") })
	})
}

func TestAdvanceFencesTheRunBefore(t *testing.T) {
	for name, first := range map[string]func(*testing.T, *elect.Lease){
		"by its first Value":    func(t *testing.T, l *elect.Lease) { t.Helper(); wantValue(t, l, "2") },
		"by its first SetValue": func(t *testing.T, l *elect.Lease) { t.Helper(); mustSet(t, l, "2") },
	} {
		t.Run(name, func(t *testing.T) {
			valueTest(t, func(in bubble) {
				t, a := in.t, in.a
				underLock(t, a, func(l *elect.Lease) {
					old := l.Checkpoint()
					mustSet(t, old, "1")
					if _, err := l.Advance(t.Context(), elect.TaskStatus{State: "running"}); err != nil {
						t.Fatal(err)
					}
					mustSet(t, old, "2") // no one has asked under the new token yet
					first(t, l)
					wantLost(t, "SetValue under the old token", old.SetValue(t.Context(), []byte("3")))
					_, err := old.Value(t.Context())
					wantLost(t, "Value under the old token", err)
					wantValue(t, l, "2")
				})
			})
		})
	}
}

// Requests and answers are lost: the very same write is repeated until it is answered.
func TestUnansweredSetIsRepeated(t *testing.T) {
	for name, fault := range map[string]memory.Fault{
		"request lost": memory.LoseRequest, "answer lost": memory.LoseAnswer, "no answer": memory.Hang,
	} {
		t.Run(name, func(t *testing.T) {
			valueTest(t, func(in bubble) {
				t, db, a := in.t, in.db, in.a
				underLock(t, a, func(l *elect.Lease) {
					wantValue(t, l, "")
					var sent []driver.Change
					countValueCalls(a, func(c memory.Call) memory.Verdict {
						sent = append(sent, c.Changes...)
						if len(sent) <= 2 {
							return memory.Verdict{Fault: fault}
						}
						return memory.Verdict{}
					})
					mustSet(t, l, "7")
					if len(sent) != 3 || sent[0].Doc.WriterID != sent[2].Doc.WriterID ||
						sent[0].IfRev != sent[2].IfRev ||
						sent[0].Doc.Rev != sent[2].Doc.Rev {
						t.Errorf("sent %+v, want one write three times", sent)
					}
					if d := valueDoc(t, db); string(d.Body) != "7" || d.Rev != sent[0].Doc.Rev {
						t.Errorf("kept %+v", d)
					}
				})
			})
		})
	}
}

// Reads that fail are repeated, and the caller's context ends that.
func TestValueWhileTheStoreIsAway(t *testing.T) {
	valueTest(t, func(in bubble) {
		t, a := in.t, in.a
		underLock(t, a, func(l *elect.Lease) {
			mustSet(t, l, "7")
			away := atomic.Bool{}
			away.Store(true)
			countValueCalls(a, func(memory.Call) memory.Verdict {
				if away.Load() {
					return memory.Verdict{Fault: memory.LoseRequest}
				}
				return memory.Verdict{}
			})
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := l.Value(ctx); !errors.Is(err, context.DeadlineExceeded) ||
				!errors.Is(err, elect.ErrUnavailable) {
				t.Errorf("Value = %v, want why it ended and what was wrong", err)
			}
			time.AfterFunc(time.Second, func() { away.Store(false) })
			wantValue(t, l, "7")
		})
	})
}

// A set that its caller waits for no longer may land later, but not once the value was read or set again.
func TestAbandonedSetDoesNotComeAfterwards(t *testing.T) {
	for name, next := range map[string]func(*testing.T, elect.Checkpoint){
		"read": func(t *testing.T, c elect.Checkpoint) { t.Helper(); wantValue(t, c, "1") },
		"set":  func(t *testing.T, c elect.Checkpoint) { t.Helper(); mustSet(t, c, "1") },
	} {
		t.Run(name, func(t *testing.T) {
			valueTest(t, func(in bubble) {
				t, db, a := in.t, in.db, in.a
				underLock(t, a, func(l *elect.Lease) {
					mustSet(t, l, "1")
					countValueCalls(a, func(memory.Call) memory.Verdict {
						return memory.Verdict{Delay: time.Second, Late: true}
					})
					ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
					defer cancel()
					value := []byte("late")
					err := l.SetValue(ctx, value)
					copy(value, "gone")
					if !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("SetValue = %v", err)
					}
					a.heal()
					next(t, l)
					time.Sleep(2 * time.Second)
					wantValue(t, l, "1")
					if d := valueDoc(t, db); string(d.Body) != "1" {
						t.Errorf("kept %q", d.Body)
					}
				})
			})
		})
	}
}

func TestValueOfALostLease(t *testing.T) {
	valueTest(t, func(in bubble) {
		t, a := in.t, in.a
		underLock(t, a, func(l *elect.Lease) {
			mustSet(t, l, "1")
			a.cut()
			begin := time.Now()
			wantLost(t, "SetValue while cut off", l.SetValue(t.Context(), []byte("2")))
			if took := time.Since(begin); took < lease/2 || took > lease*9/10 {
				t.Errorf("it was tried for %v, want for as long as the lease is valid", took)
			}
			_, err := l.Value(t.Context())
			wantLost(t, "Value without a valid lease", err)
		})
	})
}

func TestValueLimits(t *testing.T) {
	valueTest(t, func(in bubble) {
		t, a := in.t, in.a
		underLock(t, a, func(l *elect.Lease) {
			largest := bytes.Repeat([]byte{0xff}, elect.MaxValue)
			mustSet(t, l, string(largest))
			wantValue(t, l, string(largest))
			if err := l.SetValue(t.Context(), append(largest, 0)); !errors.Is(err, elect.ErrTooLarge) {
				t.Errorf("SetValue beyond the limit: %v", err)
			}
			mustSet(t, l, "")
			wantValue(t, l, "")
		})
	})
}

// Deleted out of band, it is nil, and fenced again.
func TestValueThatWasDeleted(t *testing.T) {
	valueTest(t, func(in bubble) {
		t, db, a := in.t, in.db, in.a
		underLock(t, a, func(l *elect.Lease) {
			drop := func() int64 {
				d := valueDoc(t, db)
				gone := driver.Change{Op: driver.Delete, IfRev: d.Rev, Doc: driver.Doc{Kind: driver.KindValue, ID: "g/k"}}
				if outs, err := db.Apply(t.Context(), gone); err != nil || outs[0].Status != driver.Applied {
					t.Fatal(outs, err)
				}
				return d.Rev
			}
			mustSet(t, l, "1")
			before := drop()
			time.Sleep(lease) // for the store's clock to be seen
			wantValue(t, l, "")
			if d := valueDoc(t, db); d.Count != l.Token() || d.Rev <= before {
				t.Errorf("%+v, want token %d and a revision above %d", d, l.Token(), before)
			}
			drop()
			mustSet(t, l, "2")
			wantValue(t, l, "2")
		})
	})
}

// Those who share a lease take turns: no value that was acknowledged comes back after a later one.
func TestValuesSetAtOnce(t *testing.T) {
	valueTest(t, func(in bubble) {
		t, a := in.t, in.a
		underLock(t, a, func(l *elect.Lease) {
			calls := 0
			countValueCalls(a, func(memory.Call) memory.Verdict {
				if calls++; calls%3 == 0 {
					return memory.Verdict{Fault: memory.LoseAnswer}
				}
				return memory.Verdict{Delay: time.Millisecond}
			})
			var all sync.WaitGroup
			for i := range 5 {
				all.Go(func() {
					for n := range 10 {
						mine := fmt.Sprint(i, "/", n)
						mustSet(t, l, mine)
						got, err := l.Value(t.Context())
						var who, what int
						if _, scan := fmt.Sscanf(string(got), "%d/%d", &who, &what); err != nil || scan != nil {
							t.Errorf("Value = %q, %v", got, err)
						}
						if who == i && what != n {
							t.Errorf("%q came back after %q was kept", got, mine)
						}
					}
				})
			}
			all.Wait()
		})
	})
}

// Reads of a key's value that get no answer hold up neither its claim nor its release, nor its next owner: they are
// made by the work, which has its own contexts.
func TestValueReadsWithoutAnAnswerHoldNoKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		var answers atomic.Bool
		silent := func(call memory.Call) memory.Verdict {
			if call.Op == memory.OpRead && call.Kind == driver.KindValue && call.IDs[0] == "g/k" && !answers.Load() {
				return memory.Verdict{Delay: time.Hour} // until the caller's context ends
			}
			return memory.Verdict{}
		}
		a, b := startNode(t, db, "a"), startNode(t, db, "b")
		a.store.Fault(silent)
		b.store.Fault(silent)
		read := make(chan error, 2)
		run := func(ctx context.Context, l *elect.Lease) error {
			_, err := l.Value(ctx)
			read <- err
			<-ctx.Done()
			return context.Cause(ctx)
		}
		prompt := func(what string, do func() error) {
			t.Helper()
			began := time.Now()
			if err := do(); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			if took := time.Since(began); took > lease/4 {
				t.Errorf("%s took %v", what, took)
			}
		}
		lock := func(n *node) error {
			ok, err := n.Lock(t.Context(), "g/k", run)
			if err == nil && !ok {
				err = errors.New("it is held by another")
			}
			return err
		}
		prompt("claim", func() error { return lock(a) })
		time.Sleep(2 * lease)
		prompt("release", func() error { return a.Unlock(t.Context(), "g/k") })
		if err := <-read; !errors.Is(err, elect.ErrReleased) {
			t.Errorf("the value of who was asked to release: %v", err)
		}
		prompt("the next claim", func() error { return lock(b) })
		time.Sleep(2 * lease)
		answers.Store(true)
		if err := <-read; err != nil {
			t.Errorf("the value, once it is answered: %v", err)
		}
	})
}
