package replica

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/metrics"
	"github.com/shardctl/shardctl/internal/settings"
	"github.com/shardctl/shardctl/internal/status"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/memory"
	"github.com/shardctl/shardctl/test/viewtest"
)

// counted is a store that counts what is read from it.
type counted struct {
	store.Store

	deaf  bool // it sends no notifications
	mu    sync.Mutex
	reads map[driver.Kind]int
}

func (c *counted) note(kind driver.Kind) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reads[kind]++
}

func (c *counted) Read(ctx context.Context, kind driver.Kind, ids ...string) (driver.Reply, error) {
	c.note(kind)
	return c.Store.Read(ctx, kind, ids...)
}

func (c *counted) List(ctx context.Context, kind driver.Kind, q driver.Query) (driver.Reply, error) {
	c.note(kind)
	return c.Store.List(ctx, kind, q)
}

func (c *counted) Watch(ctx context.Context, in driver.Interest) (<-chan driver.Notification, error) {
	if c.deaf {
		return nil, driver.ErrCannotWatch
	}
	return c.Store.Watch(ctx, in)
}

// during is what is read within d, by kind.
func (c *counted) during(d time.Duration) map[driver.Kind]int {
	snapshot := func() map[driver.Kind]int {
		c.mu.Lock()
		defer c.mu.Unlock()
		return maps.Clone(c.reads)
	}
	before := snapshot()
	time.Sleep(d)
	after := snapshot()
	for kind, n := range before {
		after[kind] -= n
	}
	return after
}

// reader is a client that watches.
type reader struct {
	header http.Header

	mu   sync.Mutex
	text bytes.Buffer
}

func (r *reader) Header() http.Header { return r.header }

func (r *reader) WriteHeader(int) {}

func (r *reader) Flush() {}

func (r *reader) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(p)
}

func (r *reader) has(text string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return bytes.Contains(r.text.Bytes(), []byte(text))
}

// watchEvents has n clients watch the events that a replica shows, until the test ends.
func watchEvents(t *testing.T, r *Replica, n int) []*reader {
	t.Helper()
	h := status.New(status.Config{Source: r.Board(), Events: r.StoreSource(), Logger: logr.Discard()})
	ctx, stop := context.WithCancel(t.Context())
	var ended sync.WaitGroup
	t.Cleanup(func() { stop(); ended.Wait() })
	readers := make([]*reader, n)
	for i := range readers {
		readers[i] = &reader{header: http.Header{}}
		ended.Go(func() {
			const path = "/api/v1/events?watch=1"
			h.ServeHTTP(readers[i], httptest.NewRequestWithContext(ctx, http.MethodGet, path, http.NoBody))
		})
	}
	await(t, "all begin", func() bool { return all(readers, "event: snapshot") })
	return readers
}

func all(readers []*reader, text string) bool {
	for _, r := range readers {
		if !r.has(text) {
			return false
		}
	}
	return true
}

// await waits until ok.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for limit := time.Now().Add(time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("within a minute not: %s", what)
		}
	}
}

// start runs a replica, within a bubble, until the test ends, and waits until it is ready.
func start(t *testing.T, s *settings.Settings, db store.Store) *Replica {
	t.Helper()
	r := New(Config{
		Settings: s, Metrics: metrics.New(false), Logger: logr.Discard(), Clock: elect.GoClock(),
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx, db) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	await(t, s.Instance+" is ready", func() bool { return r.Board().Snapshot().Status.Ready })
	return r
}

// calm is a configuration of which nothing happens: the tasks wait for tomorrow, and only one replica may own them.
const calm = `
version: 1
instance: a
labels: {pool: main}
store: {uri: "sqlite:x.db"}
lease: {duration: 20s}
groups:
  - name: g
    instances: {selector: {pool: main}}
    tasks: [{name: "t{1..6}", every: 24h, exec: {command: [date]}}]
`

// TestWatchersOfEventsReadNothingWhileNothingHappens holds that clients that watch events cause no reading of the store
// while there are no new ones, and share one when another replica has written some.
func TestWatchersOfEventsReadNothingWhileNothingHappens(t *testing.T) {
	const (
		idle     = time.Second
		watchers = 50 // of one client
	)
	for _, deaf := range []bool{false, true} {
		t.Run(fmt.Sprintf("notifications %v", !deaf), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db := memory.New()
				counting := &counted{Store: db, deaf: deaf, reads: map[driver.Kind]int{}}
				here := start(t, viewtest.Load(t, calm), counting)
				other := viewtest.Load(t, calm)
				other.Instance, other.Labels = "other", nil
				there := start(t, other, db.Client())
				quiet(t, counting)
				without := counting.during(idle)
				readers := watchEvents(t, here, watchers)
				quiet(t, counting)
				with := counting.during(idle)
				if with[driver.KindEvent] != 0 || without[driver.KindEvent] != 0 {
					t.Errorf("events were read %d times by %d idle watchers, and %d times without them",
						with[driver.KindEvent], watchers, without[driver.KindEvent])
				}
				for kind, n := range with {
					if most := 2*without[kind] + 5; n > most {
						t.Errorf("%s: %d readings with watchers, %d without", kind, n, without[kind])
					}
				}
				counting.mu.Lock()
				before := counting.reads[driver.KindEvent]
				counting.mu.Unlock()
				there.Refuse(errors.New("as a test wants"))
				await(t, "all hear of it", func() bool { return all(readers, "as a test wants") })
				counting.mu.Lock()
				defer counting.mu.Unlock()
				if n := counting.reads[driver.KindEvent] - before; n > 2 {
					t.Errorf("one event was read %d times by %d watchers", n, watchers)
				}
			})
		})
	}
}

// quiet waits until what a start leaves behind is over: for two seconds no events are read.
func quiet(t *testing.T, db *counted) {
	t.Helper()
	await(t, "no events are read", func() bool { return db.during(2 * time.Second)[driver.KindEvent] == 0 })
}
