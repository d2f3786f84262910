package status

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/pkg/api"
)

// mutexStore has mutexes, which take a while to be read.
type mutexStore struct {
	mu    sync.Mutex
	list  []api.Lock
	err   error
	takes time.Duration
	reads int
}

func (s *mutexStore) Mutexes(ctx context.Context) ([]api.Lock, error) {
	s.mu.Lock()
	s.reads++
	list, err, takes := slices.Clone(s.list), s.err, s.takes
	s.mu.Unlock()
	select {
	case <-time.After(takes):
		return list, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// have changes what the store has.
func (s *mutexStore) have(change func(*mutexStore)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

// wantReads wants the store to have been read so often since the last call.
func (s *mutexStore) wantReads(t *testing.T, what string, n int) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reads != n {
		t.Errorf("%s: %d reads, want %d", what, s.reads, n)
	}
	s.reads = 0
}

// heldMutex is a mutex that an instance holds, under the token.
func heldMutex(name, instance string, token int64) api.Lock {
	holder := api.LockHolder{Instance: instance, Session: "s-" + instance, FencingToken: token}
	return api.Lock{
		Key: name, Name: name, Kind: api.LockMutex, Limit: 1, Holders: api.LockHolders{holder},
		Owner: api.Owner{Instance: instance, Session: holder.Session, FencingToken: token},
	}
}

// keys are those of an answer, in order.
func keys(t *testing.T, h http.Handler, path string) string {
	t.Helper()
	var all []string
	for _, l := range decode[api.List[api.Lock]](t, get(t, h, path)).Items {
		all = append(all, l.Key)
	}
	return strings.Join(all, " ")
}

// Locks of tasks and of programs are one list, in order of key, also over its pages, and where both have one name.
func TestMutexesAreAmongTheLocks(t *testing.T) {
	waiting := heldMutex("topics/topic-0002", "c", 9)
	waiting.Waiting, waiting.Queue = 2, api.LockQueue{{Instance: "web"}, {Instance: "b"}}
	store := &mutexStore{list: []api.Lock{heldMutex("zz", "web", 1), heldMutex("a", "a", 2), waiting}}
	h := New(Config{Source: boardWith(sample(3)), Mutexes: store})
	const first, second = "a topics/topic-0001 topics/topic-0002 ", "topics/topic-0002 topics/topic-0003 zz"
	const all = first + second // one name is in it twice
	for path, want := range map[string]string{
		"":                      all,
		"?kind=task":            "topics/topic-0001 topics/topic-0002 topics/topic-0003",
		"?kind=mutex":           "a topics/topic-0002 zz",
		"?kind=mutex,task":      all,
		"?kind=semaphore":       "",
		"?instance=web":         "topics/topic-0002 zz",
		"?instance=a&kind=task": "",
		"?instance=a":           "a",
		"?q=WEB":                "topics/topic-0002 zz",
		"?group=topics":         "topics/topic-0001 topics/topic-0002 topics/topic-0003",
	} {
		if got := keys(t, h, "/api/v1/locks"+path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	var paged []string
	for next, i := "", 0; i == 0 || next != "" && i < 10; i++ {
		page := decode[api.List[api.Lock]](t, get(t, h, "/api/v1/locks?limit=1&continue="+next))
		next = page.Continue
		for _, l := range page.Items {
			paged = append(paged, l.Key)
		}
	}
	if got := strings.Join(paged, " "); got != all {
		t.Errorf("by pages: %s, want %s", got, all)
	}
}

// A task's owner is its holder. Of a long queue the beginning is shown.
func TestEveryLockHasHolders(t *testing.T) {
	long := heldMutex("long", "a", 1)
	for i := range 3 * api.MaxQueueShown {
		long.Queue = append(long.Queue, api.LockWaiter{Instance: fmt.Sprint("w", i)})
	}
	long.Waiting = len(long.Queue)
	h := New(Config{Source: boardWith(sample(2)), Mutexes: &mutexStore{list: []api.Lock{long}}})
	items := decode[api.List[api.Lock]](t, get(t, h, "/api/v1/locks")).Items
	if l := items[0]; l.Waiting != 3*api.MaxQueueShown || len(l.Queue) != api.MaxQueueShown ||
		l.Queue[1].Instance != "w1" {
		t.Errorf("%d wait, %d of them are shown", l.Waiting, len(l.Queue))
	}
	if l := items[1]; l.Limit != 1 || len(l.Holders) != 1 || l.Holders[0].Instance != "b" ||
		l.Holders[0].FencingToken != l.FencingToken {
		t.Errorf("%+v", l)
	}
	if l := items[2]; l.Limit != 1 || len(l.Holders) != 0 {
		t.Errorf("%+v", l)
	}
	if got := keys(t, h, "/api/v1/locks?instance=w250"); got != "long" {
		t.Errorf("one far behind is not found: %q", got)
	}
}

// The store is read only where mutexes are asked for, once for all who ask, and for a twentieth of the time at most.
func TestMutexesAreReadSparingly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &mutexStore{takes: 3 * time.Second}
		h := New(Config{Source: boardWith(sample(2)), Mutexes: store})
		for _, path := range []string{"tasks", "status", "locks?group=topics", "locks?kind=task,chore", "instances"} {
			get(t, h, "/api/v1/"+path)
		}
		store.wantReads(t, "no one asks", 0)
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() { get(t, h, "/api/v1/locks") })
		}
		all.Wait()
		store.wantReads(t, "twenty at once", 1)
		for range 50 {
			get(t, h, "/api/v1/locks?kind=mutex")
			time.Sleep(time.Second)
		}
		store.wantReads(t, "the next 50 s", 0)
		time.Sleep(11 * time.Second)
		get(t, h, "/api/v1/locks")
		store.wantReads(t, "after 61 s", 1)
	})
}

// Nobody who has gone leaves others with an old list.
func TestWhoGoesSpoilsNoReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &mutexStore{takes: time.Second, list: []api.Lock{heldMutex("m", "a", 1)}}
		h := New(Config{Source: boardWith(sample(0)), Mutexes: store})
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/api/v1/locks", http.NoBody)
			h.ServeHTTP(httptest.NewRecorder(), r)
		}()
		synctest.Wait()
		cancel()
		<-gone
		list := decode[api.List[api.Lock]](t, get(t, h, "/api/v1/locks"))
		if len(list.Items) != 1 || list.Stale {
			t.Errorf("%+v", list)
		}
	})
}

// While the store is away those read last are shown, as stale; other lists are not concerned.
func TestMutexesMayBeStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &mutexStore{list: []api.Lock{heldMutex("m", "a", 1)}}
		h := New(Config{Source: boardWith(sample(1)), Mutexes: store})
		check := func(what, path string, n int, stale bool) {
			t.Helper()
			list := decode[api.List[api.Lock]](t, get(t, h, path))
			if len(list.Items) != n || list.Stale != stale {
				t.Errorf("%s: %d locks, stale %v; want %d, %v", what, len(list.Items), list.Stale, n, stale)
			}
		}
		check("well", "/api/v1/locks", 2, false)
		store.have(func(s *mutexStore) { s.err = errors.New("away") })
		time.Sleep(2 * mutexAge)
		check("away", "/api/v1/locks", 2, true)
		check("away, others", "/api/v1/instances", 3, false)
		store.have(func(s *mutexStore) { s.err, s.list = nil, nil })
		time.Sleep(2 * mutexAge)
		check("back", "/api/v1/locks", 1, false)
	})
}

// What no one asks for is not kept in memory.
func TestMutexesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &mutexStore{list: []api.Lock{heldMutex("m", "a", 1)}}
		m := newMutexes(boardWith(sample(1)), store, Config{}.Logger)
		for range 3 {
			m.refresh(t.Context())
			time.Sleep(mutexKept - time.Second)
			if got := len(m.Snapshot().Locks.All()); got != 2 {
				t.Errorf("%d locks while they are asked for, want 2", got)
			}
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := len(m.Snapshot().Locks.All()); got != 1 || m.list != nil || m.joined != (snapshot.List[api.Lock]{}) {
			t.Errorf("%d locks and %d mutexes are kept", got, len(m.list))
		}
	})
}

// A watch hears of what changes in the store, although no snapshot says so, and reads no more once it has ended.
func TestMutexesAreWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &mutexStore{list: []api.Lock{heldMutex("m", "a", 1), heldMutex("n", "a", 2)}}
		h := New(Config{Source: boardWith(sample(0)), Mutexes: store})
		watching(t, h, "/api/v1/locks?watch=true", "", func(out *tape) {
			expect(t, out.take(), `snapshot {"items":[{"key":"m"`)
			time.Sleep(10 * time.Second)
			synctest.Wait()
			expect(t, out.take())
			store.have(func(s *mutexStore) { s.list = []api.Lock{heldMutex("m", "b", 3)} })
			time.Sleep(3 * mutexAge)
			synctest.Wait()
			expect(t, out.take(), `upsert {"key":"m"`, `delete {"key":"n"`)
		})
		store.have(func(s *mutexStore) { s.reads = 0 })
		time.Sleep(time.Minute)
		store.wantReads(t, "no one watches", 0)
	})
}
