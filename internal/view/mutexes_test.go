package view

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/cluster"
	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/mutex"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/memory"
	_ "github.com/shardctl/shardctl/pkg/store/mongo"
	"github.com/shardctl/shardctl/test/suites"
	"github.com/shardctl/shardctl/test/testmongo"
	"github.com/shardctl/shardctl/test/viewtest"
)

// mutexStores are where mutexes are read from, each as a process opens it.
func mutexStores(t *testing.T) map[string]func() store.Store {
	t.Helper()
	db := memory.New()
	opened := func(uri string) func() store.Store {
		return func() store.Store {
			s, err := store.Open(t.Context(), store.Config{URI: uri, Timeout: 30 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close(context.WithoutCancel(t.Context())) })
			return s
		}
	}
	stores := map[string]func() store.Store{
		"memory": func() store.Store { return db.Client() },
		"sqlite": opened("sqlite:" + filepath.Join(t.TempDir(), "locks.db")),
	}
	if suites.Chosen(t, suites.Mongo) {
		stores["mongodb"] = opened(testmongo.Shared(t))
	}
	return stores
}

// program is a process that only locks.
func program(t *testing.T, s store.Store, name string) *mutex.Locks {
	t.Helper()
	l, err := mutex.OnStore(s, func(c *elect.Config) { c.Member.Instance, c.Logger = name, logr.Discard() })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return l
}

func held(t *testing.T, m interface {
	Lock(ctx context.Context) (*mutex.Held, error)
},
) *mutex.Held {
	t.Helper()
	h, err := m.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// mutexesUntil reads the mutexes of a store until they are as wanted.
func mutexesUntil(t *testing.T, p *Offline, what string, ok func(map[string]api.Lock) bool) map[string]api.Lock {
	t.Helper()
	var found map[string]api.Lock
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		list, err := p.Mutexes(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		found = map[string]api.Lock{}
		for _, l := range list {
			found[l.Name] = l
		}
		if ok(found) {
			return found
		}
	}
	t.Fatalf("%s: %+v", what, found)
	return nil
}

// Holders and queues are shown with the names of processes that only lock, and nothing is shown of what is free.
func TestMutexesOfAStore(t *testing.T) {
	for name, open := range mutexStores(t) {
		t.Run(name, func(t *testing.T) {
			a, b := program(t, open(), "a"), program(t, open(), "b")
			p := NewOffline(viewtest.Settings(t), open())
			mutexesUntil(t, p, "empty", func(all map[string]api.Lock) bool { return len(all) == 0 })

			one := held(t, a.Mutex("reports/monthly"))
			two := held(t, a.Semaphore("crawler", 3))
			three := held(t, b.Semaphore("crawler", 3))
			read, err := b.RWMutex("index").RLock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			waits, done := context.WithCancel(t.Context())
			defer done()
			ended := make(chan error, 2)
			go func() { _, err := b.Mutex("reports/monthly").Lock(waits); ended <- err }()
			go func() { _, err := a.RWMutex("index").Lock(waits); ended <- err }()
			all := mutexesUntil(t, p, "both wait", func(all map[string]api.Lock) bool {
				return all["reports/monthly"].Waiting+all["index"].Waiting == 2
			})
			checkHeld(t, all["reports/monthly"], api.LockMutex, 1, "a:1", one.Token())
			checkHeld(t, all["crawler"], api.LockSemaphore, 3, "a:1 b:2", two.Token(), three.Token())
			checkHeld(t, all["index"], api.LockRW, 0, "b:1r", read.Token())
			m, i := all["reports/monthly"], all["index"]
			if m.Instance != "a" || m.FencingToken != one.Token() || m.Queue[0].Instance != "b" ||
				m.Queue[0].Session == "" ||
				i.Queue[0].Instance != "a" || i.Queue[0].Shared || all["crawler"].Instance != "" {
				t.Errorf("%+v", all)
			}
			done()
			for range 2 {
				if err := <-ended; !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			}
			for _, h := range []*mutex.Held{two, three, read} {
				if err := h.Unlock(t.Context()); err != nil {
					t.Error(err)
				}
			}
			if err := one.Detach(t.Context(), time.Now().Add(time.Hour)); err != nil {
				t.Error(err)
			}
			all = mutexesUntil(t, p, "free", func(all map[string]api.Lock) bool {
				return len(all) == 1 && all["reports/monthly"].Waiting == 0
			})
			if kept := all["reports/monthly"]; time.Until(kept.KeptUntil.Time) < 50*time.Minute || kept.Instance != "" {
				t.Errorf("kept: %+v", kept)
			}
		})
	}
}

// checkHeld wants a lock to be held: "a:1" is instance a in the first slot, r a reader.
func checkHeld(t *testing.T, l api.Lock, kind api.LockKind, limit int, want string, tokens ...int64) {
	t.Helper()
	got := ""
	var given []int64
	for _, h := range l.Holders {
		got += fmt.Sprintf(" %s:%d", h.Instance, h.Slot+1)
		if h.Shared {
			got += "r"
		}
		given = append(given, h.FencingToken)
		if age := time.Since(h.HeldSince.Time); age < -time.Minute || age > time.Hour {
			t.Errorf("%s is held since %v", l.Key, h.HeldSince)
		}
	}
	if l.Kind != kind || l.Limit != limit || got != " "+want || !slices.Equal(given, tokens) {
		t.Errorf("%s: held by%s under %v, want %s under %v: %+v", l.Key, got, given, want, tokens, l)
	}
}

// More than a page of them is read, each once.
func TestManyMutexes(t *testing.T) {
	db := memory.New()
	const n = 2*mutexPage + 3
	for i := range n {
		d := protocol.MutexDoc{
			Rev: 5, Limit: 1, Exclusive: 5, Holders: []protocol.MutexHolder{{Session: "s", Claim: "c", Token: 5}},
		}
		viewtest.Put(t, db, record.MutexDoc(record.MutexID(fmt.Sprint("m", i)), d,
			driver.WriterID{Session: "s", Seq: int64(i + 1)}, 1))
	}
	list, err := Mutexes(t.Context(), db, &cluster.View{})
	seen := map[string]bool{}
	for _, l := range list {
		seen[l.Key] = true
	}
	if err != nil || len(list) != n || len(seen) != n {
		t.Errorf("%d, %d of them different, want %d: %v", len(list), len(seen), n, err)
	}
}

// A holder that is known to be dead differs from one of which nothing is known.
func TestMutexOfTheDead(t *testing.T) {
	known := holdersOf(&cluster.View{Sessions: []cluster.Session{
		{ID: "A", State: record.Dead, Member: record.Member{Instance: "a"}, Cause: "no heartbeat for 20 s"},
		{ID: "B", State: record.Live, Member: record.Member{Instance: "b"}},
	}})
	for sessions, want := range map[string]string{"A": "Orphaned", "B": "", "C": "", "AB": "", "": ""} {
		m := protocol.MutexDoc{Rev: 5, Limit: 2}
		for _, s := range sessions {
			m.Holders = append(m.Holders, protocol.MutexHolder{Session: string(s), Claim: "c", Token: 5})
		}
		if l := known.lock("m", m, 1); l.Reason != want || (l.Message != "") != (want != "") {
			t.Errorf("held by %q: %q, %q", sessions, l.Reason, l.Message)
		}
	}
}
