//go:build unix

package mutexes

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/mutex"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/test/testprocess"
)

// suite is what holds on each store; fresh is the URI of an empty database.
func suite(t *testing.T, fresh func(t *testing.T) string) {
	t.Helper()
	t.Run("order", func(t *testing.T) { order(t, fresh(t)) })
	t.Run("freeze", func(t *testing.T) { freeze(t, fresh(t)) })
	t.Run("readers", func(t *testing.T) { readers(t, fresh(t)) })
	t.Run("close", func(t *testing.T) { closing(t, fresh(t)) })
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
func document(ctx context.Context, db store.Store) (protocol.MutexDoc, error) {
	reply, err := db.Read(ctx, driver.KindMutex, record.MutexID(name))
	if err != nil || len(reply.Docs) == 0 {
		return protocol.MutexDoc{}, err
	}
	return record.MutexFrom(reply.Docs[0])
}

func await(t *testing.T, what string, ready func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ready(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

const (
	processes, calls = 10, 100
	newcomers        = 10 // calls of each process that lives, while turns are taken
)

// killed says which of the processes are.
func killed(i int) bool { return i == 1 || i == 4 || i == 7 }

// A hundred calls of ten processes, all at once, get it in the order of the queue, and before all that are made
// meanwhile. Of three processes that are killed the calls are passed over, and no others.
func order(t *testing.T, uri string) {
	t.Helper()
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
	}
	var before protocol.MutexDoc
	await(t, "all calls are in the queue", func() bool {
		before, err = document(t.Context(), db)
		return err == nil && len(before.Queue) == calls
	})
	for i, p := range peers {
		if killed(i) {
			p.signal(syscall.SIGKILL)
			if err := <-p.ended; err == nil {
				t.Error("a process that was killed has ended in order")
			}
		}
	}
	began := time.Now()
	if err := first.Unlock(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := make([][]turn, processes)
	var reading sync.WaitGroup
	for i, p := range peers {
		if !killed(i) {
			reading.Go(func() { got[i] = p.turns(calls/processes, newcomers) })
		}
	}
	reading.Wait()
	all := slices.Concat([]turn{turnOf(first.Token(), 0, before)}, slices.Concat(got...))
	for _, wrong := range disorder(all) {
		t.Error(wrong)
	}
	living := len(slices.DeleteFunc(got, func(of []turn) bool { return len(of) == 0 }))
	if want := 1 + living*(calls/processes+newcomers); len(all) != want {
		t.Errorf("%d turns, want %d", len(all), want)
	}
	t.Logf("%d turns after three of ten were killed: %v", len(all)-1, time.Since(began).Round(time.Millisecond))
	for i, p := range peers {
		if _ = p.in.Close(); !killed(i) {
			if err := <-p.ended; err != nil {
				t.Error(err)
			}
		}
	}
	left, err := document(t.Context(), db)
	if err != nil || len(left.Queue)+len(left.Holders) > 0 {
		t.Errorf("left: %+v, %v", left, err)
	}
}

// A holder that is frozen for longer than its lease is overtaken. Thawed, it finds its context ended before it acts.
func freeze(t *testing.T, uri string) {
	t.Helper()
	p := start(t, uri)
	p.tell("hold 0")
	token := p.turn().token
	p.line("acts")
	p.signal(syscall.SIGSTOP)
	stood, began := testprocess.WatchStalls(t), time.Now()
	next, err := here(t, uri).Mutex(name).LockWithin(t.Context(), patience)
	if err != nil {
		t.Fatal(err)
	}
	took := time.Since(began).Round(time.Millisecond)
	t.Logf("taken from a frozen holder after %v of a lease of %v", took, lease)
	if took > lease+time.Second+stood() {
		t.Errorf("taken after %v, want T + 1 s at most, and %v of stalls", took, stood())
	}
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

// More readers wait behind a writer than a document holds. All of them enter.
func readers(t *testing.T, uri string) {
	t.Helper()
	writer, err := here(t, uri).RWMutex(name).Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	db, err := store.Open(t.Context(), store.Config{URI: uri})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close(context.WithoutCancel(t.Context())) }()
	others := here(t, uri)
	var waiting sync.WaitGroup
	var entered atomic.Int64
	for range protocol.MaxTickets {
		waiting.Go(func() {
			held, err := others.RWMutex(name).RLock(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			entered.Add(1)
			if err := held.Unlock(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	await(t, "all readers are in the queue", func() bool {
		is, err := document(t.Context(), db)
		return err == nil && len(is.Queue) == protocol.MaxTickets
	})
	began := time.Now()
	if err := writer.Unlock(t.Context()); err != nil {
		t.Fatal(err)
	}
	waiting.Wait()
	t.Logf("%d readers came and went in %v", entered.Load(), time.Since(began).Round(time.Millisecond))
	if n := entered.Load(); n != protocol.MaxTickets {
		t.Errorf("%d readers entered, want %d", n, protocol.MaxTickets)
	}
}

// A process that closes in the middle of a section lets no one else in before that has ended.
func closing(t *testing.T, uri string) {
	t.Helper()
	locks, err := mutex.Open(t.Context(), uri, lasts)
	if err != nil {
		t.Fatal(err)
	}
	held, err := locks.Mutex(name).Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	closed := make(chan error, 1)
	go func() { closed <- locks.Close(t.Context()) }()
	<-held.Context().Done() // it is asked to end
	other := here(t, uri).Mutex(name)
	for range 5 {
		if _, err := other.TryLock(t.Context()); !errors.Is(err, mutex.ErrLocked) {
			t.Fatalf("another one is in the section: %v", err)
		}
	}
	select {
	case err := <-closed:
		t.Fatalf("closed in the middle of the section: %v", err)
	default:
	}
	if err := held.Unlock(t.Context()); !errors.Is(err, mutex.ErrClosed) { // that is why it had ended
		t.Error(err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	next, err := other.LockWithin(t.Context(), patience)
	if err != nil {
		t.Fatal(err)
	}
	if err := next.Unlock(t.Context()); err != nil {
		t.Error(err)
	}
}
