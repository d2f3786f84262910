//go:build unix

package mutexes

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/elect/store"
	"github.com/shardctl/shardctl/pkg/mutex"
)

// suite is what holds on each store; fresh is the URI of an empty database.
func suite(t *testing.T, fresh func(t *testing.T) string) {
	t.Helper()
	t.Run("order", func(t *testing.T) { order(t, fresh(t)) })
	t.Run("freeze", func(t *testing.T) { freeze(t, fresh(t)) })
	t.Run("together", func(t *testing.T) { together(t, fresh(t)) })
}

// here are locks of this process.
func here(t *testing.T, uri string) *mutex.Locks {
	t.Helper()
	locks, err := mutex.Open(t.Context(), uri, lasts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
		defer cancel()
		if err := locks.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return locks
}

// document is the mutex as it is in the store.
func document(t *testing.T, db store.Store) protocol.MutexDoc {
	t.Helper()
	reply, err := db.Read(t.Context(), store.KindMutex, record.MutexID(name))
	if err != nil {
		t.Fatal(err)
	}
	if len(reply.Docs) == 0 {
		return protocol.MutexDoc{}
	}
	is, err := record.MutexFrom(reply.Docs[0])
	if err != nil {
		t.Fatal(err)
	}
	return is
}

func await(t *testing.T, what string, ready func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ready(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// A hundred calls of ten processes get it in the order in which they were written. Of three processes that are killed
// the calls are passed over, and no others.
func order(t *testing.T, uri string) {
	t.Helper()
	const processes, calls, killed = 10, 100, 3
	db, err := store.Open(t.Context(), store.Config{URI: uri})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close(context.WithoutCancel(t.Context())) }()
	first, err := here(t, uri).Mutex(name).Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var peers []*peer
	for range processes {
		peers = append(peers, start(t, uri))
	}
	for i := range calls {
		peers[i%processes].tell("pass %d", i)
		await(t, fmt.Sprintf("call %d is in the queue", i), func() bool { return len(document(t, db).Queue) == i+1 })
	}
	for i := range killed {
		peers[3*i+1].signal(syscall.SIGKILL)
		if err := <-peers[3*i+1].ended; err == nil {
			t.Error("a process that was killed has ended in order")
		}
	}
	began := time.Now()
	if err := first.Unlock(t.Context()); err != nil {
		t.Fatal(err)
	}
	type turn struct {
		call  int
		token int64
	}
	var got []turn
	for i, p := range peers {
		if i%3 == 1 && i/3 < killed {
			continue
		}
		for range calls / processes {
			var at turn
			if _, err := fmt.Sscanf(p.line("got"), "got %d %d", &at.call, &at.token); err != nil {
				t.Fatal(err)
			}
			got = append(got, at)
		}
	}
	slices.SortFunc(got, func(a, b turn) int { return cmp.Compare(a.token, b.token) })
	if !slices.IsSortedFunc(got, func(a, b turn) int { return cmp.Compare(a.call, b.call) }) ||
		got[0].token <= first.Token() {
		t.Errorf("order of turns: %v", got)
	}
	t.Logf("%d turns after three of ten were killed: %v", len(got), time.Since(began).Round(time.Millisecond))
	for i, p := range peers {
		if _ = p.in.Close(); i%3 != 1 || i/3 >= killed {
			if err := <-p.ended; err != nil {
				t.Error(err)
			}
		}
	}
	if left := document(t, db); len(left.Queue)+len(left.Holders) > 0 {
		t.Errorf("left: %+v", left)
	}
}

// A holder that is frozen for longer than its lease is overtaken. Thawed, it finds its context ended before it acts.
func freeze(t *testing.T, uri string) {
	t.Helper()
	p := start(t, uri)
	p.tell("hold 0")
	var n int
	var token int64
	if _, err := fmt.Sscanf(p.line("got"), "got %d %d", &n, &token); err != nil {
		t.Fatal(err)
	}
	p.line("acts")
	p.signal(syscall.SIGSTOP)
	began := time.Now()
	next, err := here(t, uri).Mutex(name).LockWithin(t.Context(), patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("taken from a frozen holder after %v of a lease of %v", time.Since(began).Round(time.Millisecond), lease)
	if next.Token() <= token {
		t.Errorf("token %d after %d", next.Token(), token)
	}
	for len(p.said) > 0 { // from before
		<-p.said
	}
	p.signal(syscall.SIGCONT)
	late := time.After(patience)
	for said := ""; !strings.HasPrefix(said, "lost"); {
		select {
		case said = <-p.said:
			if strings.HasPrefix(said, "acts") {
				t.Errorf("it acted after another had the lock: %s", said)
			}
		case <-late:
			t.Fatal("it has not noticed")
		}
	}
	if said := p.line("failed"); !strings.Contains(said, mutex.ErrLost.Error()) {
		t.Errorf("unlock: %s", said)
	}
	if err := next.Unlock(t.Context()); err != nil {
		t.Error(err)
	}
	_ = p.in.Close()
	if err := <-p.ended; err != nil {
		t.Error(err)
	}
}

// Readers, a writer and a semaphore of two processes' sessions on the real store.
func together(t *testing.T, uri string) {
	t.Helper()
	a, b := here(t, uri), here(t, uri)
	lock := func(h *mutex.Held, err error) *mutex.Held {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	unlock := func(h *mutex.Held) {
		t.Helper()
		if err := h.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
	}
	one, two := lock(a.RWMutex("rw").RLock(t.Context())), lock(b.RWMutex("rw").RLock(t.Context()))
	written := make(chan *mutex.Held)
	go func() {
		h, err := a.RWMutex("rw").Lock(t.Context())
		if err != nil {
			t.Error(err)
		}
		written <- h
	}()
	unlock(one)
	select {
	case <-written:
		t.Error("a writer beside a reader")
	case <-time.After(100 * time.Millisecond):
	}
	unlock(two)
	w := <-written
	if _, err := b.RWMutex("rw").TryRLock(t.Context()); err == nil {
		t.Error("a reader beside a writer")
	}
	unlock(w)
	three := []*mutex.Held{
		lock(a.Semaphore("s", 2).Lock(t.Context())), lock(b.Semaphore("s", 2).TryLock(t.Context())),
	}
	if _, err := a.Semaphore("s", 2).TryLock(t.Context()); err == nil || three[0].Slot() == three[1].Slot() {
		t.Errorf("a third of two: %v; slots %d, %d", err, three[0].Slot(), three[1].Slot())
	}
	unlock(three[0])
	unlock(three[1])
}
