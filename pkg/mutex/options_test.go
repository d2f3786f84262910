package mutex_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/pkg/fence"
	"github.com/shardctl/shardctl/pkg/mutex"
	"github.com/shardctl/shardctl/pkg/store/memory"
)

// asked is a call under way.
type asked struct {
	got chan *mutex.Held
	err chan error
}

// ask begins a call and waits until it is written.
func ask(ctx context.Context, call func(context.Context) (*mutex.Held, error)) asked {
	a := asked{make(chan *mutex.Held, 1), make(chan error, 1)}
	go func() {
		if h, err := call(ctx); err != nil {
			a.err <- err
		} else {
			a.got <- h
		}
	}()
	time.Sleep(lease)
	return a
}

func (a asked) waits(t *testing.T, who string) {
	t.Helper()
	synctest.Wait()
	select {
	case <-a.got:
		t.Errorf("%s got it", who)
	case err := <-a.err:
		t.Errorf("%s: %v", who, err)
	default:
	}
}

func (a asked) gets(t *testing.T, who string) *mutex.Held {
	t.Helper()
	select {
	case h := <-a.got:
		return h
	case err := <-a.err:
		t.Fatalf("%s: %v", who, err)
	case <-time.After(10 * lease):
		t.Fatalf("%s has not got it", who)
	}
	return nil
}

// Readers hold it together. None enters once a writer waits, so that writers are not starved.
func TestRWMutex(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		a, b := process(t, db.Client(), "a").RWMutex("m"), process(t, db.Client(), "b").RWMutex("m")
		one, two := must(t)(a.RLock(t.Context())), must(t)(b.RLock(t.Context()))
		if one.Token() == two.Token() {
			t.Errorf("two readers have the token %d", one.Token())
		}
		_, err := b.TryLock(t.Context())
		wantError(t, "write beside readers", err, mutex.ErrLocked)
		writer := ask(t.Context(), b.Lock)
		reader := ask(t.Context(), a.RLock)
		writer.waits(t, "the writer")
		unlock(t, one)
		reader.waits(t, "a reader behind a writer")
		unlock(t, two)
		w := writer.gets(t, "the writer")
		reader.waits(t, "a reader beside the writer")
		_, err = a.TryRLock(t.Context())
		wantError(t, "read beside a writer", err, mutex.ErrLocked)
		_, err = a.RLockWithin(t.Context(), time.Second)
		wantError(t, "read beside a writer for a second", err, mutex.ErrLocked)
		unlock(t, w)
		unlock(t, reader.gets(t, "the reader"))
	})
}

// A reader that asks to write would wait for itself, and two such for each other.
func TestUpgrade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := process(t, memory.New(), "a")
		h := must(t)(a.RWMutex("m").RLock(t.Context()))
		_, err := a.RWMutex("m").Lock(h.Context())
		wantError(t, "upgrade", err, mutex.ErrUpgrade)
		unlock(t, h)
		h = must(t)(a.Mutex("n").Lock(t.Context()))
		_, err = a.Mutex("n").Lock(h.Context())
		wantError(t, "lock what is held", err, mutex.ErrHeldHere)
		unlock(t, must(t)(a.Mutex("other").Lock(h.Context())))
		unlock(t, h)

		owner := a.RWMutex("m").Reentrant("request 1")
		read := must(t)(owner.RLock(t.Context()))
		_, err = owner.Lock(t.Context())
		wantError(t, "upgrade of an owner", err, mutex.ErrUpgrade)
		unlock(t, read)
	})
}

// Up to n hold a semaphore, each in a slot of its own. Who names another n is refused.
func TestSemaphore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		a, b := process(t, db.Client(), "a"), process(t, db.Client(), "b")
		var held []*mutex.Held
		var slots []int
		for range 3 {
			h := must(t)(a.Semaphore("m", 3).Lock(t.Context()))
			held, slots = append(held, h), append(slots, h.Slot())
		}
		if !slices.Equal(slots, []int{0, 1, 2}) {
			t.Errorf("slots %v", slots)
		}
		_, err := b.Semaphore("m", 3).TryLock(t.Context())
		wantError(t, "a fourth", err, mutex.ErrLocked)
		for what, m := range map[string]func(context.Context) (*mutex.Held, error){
			"of two": b.Semaphore("m", 2).Lock, "a mutex": b.Mutex("m").Lock, "a reader": b.RWMutex("m").RLock,
		} {
			_, err := m(t.Context())
			wantError(t, what, err, mutex.ErrLimit)
		}
		next := ask(t.Context(), b.Semaphore("m", 3).Lock)
		unlock(t, held[1])
		h := next.gets(t, "the fourth")
		if h.Slot() != 1 {
			t.Errorf("slot %d, want the one that is free", h.Slot())
		}
		for _, h := range []*mutex.Held{h, held[0], held[2]} {
			unlock(t, h)
		}
		unlock(t, must(t)(b.Semaphore("m", 2).Lock(t.Context()))) // it is unused now
	})
}

// An owner holds it as often as it likes; others wait for the last Unlock.
// A writer that reads as well has one token for both, and a fence takes it for both.
func TestAFenceTakesAWriterThatReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rw := process(t, memory.New(), "a").RWMutex("m").Reentrant("me")
		w := must(t)(rw.Lock(t.Context()))
		r := must(t)(rw.RLock(t.Context()))
		var fences fence.Memory
		for _, c := range []fence.Claim{
			fence.Exclusive("m", w.Token()), fence.Shared("m", r.Token()), fence.Exclusive("m", w.Token()),
		} {
			if err := fences.Do(t.Context(), c, func(context.Context) error { return nil }); err != nil {
				t.Error(err)
			}
		}
		unlock(t, r)
		unlock(t, w)
		next := must(t)(rw.Lock(t.Context()))
		_ = fences.Do(t.Context(), fence.Exclusive("m", next.Token()), func(context.Context) error { return nil })
		err := fences.Do(t.Context(), fence.Shared("m", r.Token()), func(context.Context) error { return nil })
		if !errors.Is(err, fence.ErrOld) {
			t.Errorf("it reads after the next writer: %v, want ErrOld", err)
		}
		unlock(t, next)
	})
}

func TestReentrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := process(t, memory.New(), "a")
		mine, theirs := a.Mutex("m").Reentrant("me"), a.Mutex("m").Reentrant("you")
		var mu sync.Mutex
		var held []*mutex.Held
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				h := must(t)(mine.Lock(t.Context()))
				mu.Lock()
				held = append(held, h)
				mu.Unlock()
			})
		}
		wg.Wait()
		held = append(held, must(t)(mine.Lock(held[0].Context())))
		other := ask(t.Context(), theirs.Lock)
		for i, h := range held {
			if h.Token() != held[0].Token() || h.Context().Err() != nil {
				t.Errorf("hold %d: token %d, %v", i, h.Token(), h.Context().Err())
			}
			other.waits(t, "another owner")
			unlock(t, h)
		}
		wantError(t, "once too often", held[3].Unlock(t.Context()), mutex.ErrNotHeld)
		unlock(t, other.gets(t, "the other owner"))
		again := must(t)(mine.Lock(t.Context()))
		if again.Token() <= held[0].Token() {
			t.Errorf("token %d after %d", again.Token(), held[0].Token())
		}
		unlock(t, again)
	})
}

// As many may wait as the document can hold. One more gets an error at once.
func TestQueueFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := process(t, memory.New(), "a")
		h := must(t)(a.Mutex("m").Lock(t.Context()))
		ctx, cancel := context.WithCancel(t.Context())
		full, gave := make(chan error, 2000), make(chan error, 2000)
		for range 1200 {
			go func() {
				_, err := a.Mutex("m").Lock(ctx)
				if errors.Is(err, mutex.ErrQueueFull) {
					full <- err
				} else {
					gave <- err
				}
			}()
		}
		time.Sleep(lease)
		if n := len(full); n != 1200-protocol.MaxTickets || len(gave) > 0 {
			t.Errorf("%d were refused, %d gave up; want %d to wait", n, len(gave), protocol.MaxTickets)
		}
		cancel()
		time.Sleep(lease)
		unlock(t, h)
		unlock(t, must(t)(a.Mutex("m").Lock(t.Context())))
	})
}

// An unfair call gets it although others wait: here from another call of its process, with the write that releases it.
func TestUnfair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		a := process(t, db.Client(), "a")
		for i := range 10 {
			unlock(t, must(t)(a.Mutex(fmt.Sprint("m", i)).Unfair().Lock(t.Context())))
		}
		h := must(t)(a.Mutex("m").Lock(t.Context()))
		fair := ask(t.Context(), a.Mutex("m").Lock)
		unfair := ask(t.Context(), a.Mutex("m").Unfair().Lock)
		unlock(t, h)
		overtaken := unfair.gets(t, "the unfair one")
		fair.waits(t, "the other")
		unlock(t, overtaken)
		unlock(t, fair.gets(t, "the other"))
	})
}

// What is kept with a lock is fenced by its token, and is no value of a task.
func TestValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		a, b := process(t, db.Client(), "a"), process(t, db.Client(), "b")
		h := must(t)(a.Mutex("m").Lock(t.Context()))
		if err := h.SetValue(t.Context(), []byte("7")); err != nil {
			t.Fatal(err)
		}
		unlock(t, h)
		wantError(t, "set after unlock", h.SetValue(t.Context(), []byte("8")), mutex.ErrLost)
		h = must(t)(b.Mutex("m").Lock(t.Context()))
		if v, err := h.Value(t.Context()); err != nil || string(v) != "7" {
			t.Errorf("%q, %v", v, err)
		}
		unlock(t, h)
	})
}

// A thousand readers behind a writer are more than the document can have as holders: as many enter as fit, and the
// others after them.
func TestManyReadersEnter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		slow := db.Client() // so that many calls share a write
		slow.Fault(func(memory.Call) memory.Verdict { return memory.Verdict{Delay: 10 * time.Millisecond} })
		a, b := process(t, db.Client(), "a"), process(t, slow, "b")
		writer := must(t)(a.RWMutex("m").Lock(t.Context()))
		var entered atomic.Int64
		leave := make(chan struct{})
		var readers sync.WaitGroup
		for range protocol.MaxTickets {
			readers.Go(func() {
				h, err := b.RWMutex("m").RLock(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				entered.Add(1)
				<-leave
				unlock(t, h)
			})
		}
		time.Sleep(lease)
		unlock(t, writer)
		time.Sleep(lease)
		if n := entered.Load(); n == 0 || n == protocol.MaxTickets {
			t.Errorf("%d readers entered, want as many as the document holds", n)
		}
		close(leave)
		readers.Wait()
		unlock(t, must(t)(a.RWMutex("m").Lock(t.Context())))
	})
}

// Who waits keeps the place when the store is away for longer than the lease, and the session is another after that.
func TestPlaceOutlivesSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		away := db.Client()
		a, b, c := process(t, db.Client(), "a"), process(t, away, "b"), process(t, db.Client(), "c")
		h := must(t)(a.Mutex("m").Lock(t.Context()))
		first := ask(t.Context(), b.Mutex("m").Lock)
		second := ask(t.Context(), c.Mutex("m").Lock)
		away.Fault(func(memory.Call) memory.Verdict { return memory.Verdict{Fault: memory.Hang} })
		time.Sleep(lease / 2)
		away.Fault(nil)
		time.Sleep(lease)
		unlock(t, h)
		got := first.gets(t, "the first")
		second.waits(t, "the second")
		unlock(t, got)
		unlock(t, second.gets(t, "the second"))
	})
}

// An owner whose hold has ended by itself gets an error: it would wait for what it has to unlock itself. After that it
// gets another.
func TestReentrantAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := process(t, memory.New(), "a").Mutex("m").Reentrant("me").MaxHold(time.Second)
		outer, second := must(t)(m.Lock(t.Context())), must(t)(m.Lock(t.Context()))
		time.Sleep(2 * time.Second)
		for range 2 {
			_, err := m.Lock(t.Context())
			wantError(t, "again", err, mutex.ErrMaxHold)
			_, err = m.TryLock(t.Context())
			wantError(t, "try again", err, mutex.ErrMaxHold)
		}
		if err := second.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
		_, err := m.Lock(t.Context())
		wantError(t, "before the last is unlocked", err, mutex.ErrMaxHold)
		wantError(t, "unlock", outer.Unlock(t.Context()), mutex.ErrMaxHold)
		unlock(t, must(t)(m.Lock(t.Context())))
	})
}

// A call that does not wait for others does not wait for another of its owner either.
func TestReentrantTryLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		a, b := process(t, db.Client(), "a"), process(t, db.Client(), "b")
		others := must(t)(b.Mutex("m").Lock(t.Context()))
		mine := a.Mutex("m").Reentrant("me")
		waiting := ask(t.Context(), mine.Lock)
		waiting.waits(t, "the owner's first call")
		began := time.Now()
		_, err := mine.TryLock(t.Context())
		wantError(t, "try", err, mutex.ErrLocked)
		if took := time.Since(began); took > 0 {
			t.Errorf("it waited %v", took)
		}
		unlock(t, others)
		held := waiting.gets(t, "the owner's first call")
		unlock(t, must(t)(mine.TryLock(t.Context())))
		unlock(t, held)
	})
}
