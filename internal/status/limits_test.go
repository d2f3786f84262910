package status

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/internal/web"
	"github.com/shardctl/shardctl/pkg/api"
)

// busyStore is what only the store has. Each reading takes a while, and they are counted.
type busyStore struct {
	takes time.Duration
	reads atomic.Int64
	full  bool // there are always more events
}

func (s *busyStore) wait(ctx context.Context) error {
	s.reads.Add(1)
	select {
	case <-time.After(s.takes):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *busyStore) Events(ctx context.Context, q snapshot.EventQuery) ([]api.Event, error) {
	if err := s.wait(ctx); err != nil || !s.full {
		return nil, err
	}
	events := make([]api.Event, q.Limit)
	for i := range events {
		events[i] = api.Event{ID: fmt.Sprint(len(events) - i), Key: "topics/topic-0001", Type: "Moved"}
	}
	return events, nil
}

func (s *busyStore) EventsChanged() <-chan struct{} { return nil }

func (s *busyStore) Runs(ctx context.Context, _ string) ([]api.Run, error) { return nil, s.wait(ctx) }

var operator = Access{Changes: ChangesOpen, Trusted: true}

// Each path that has the store read, asked for by strangers as fast as they can, each time with something else: the
// store is read for them ten times a second, and an operator is answered as if there were none.
func TestStrangersHoldUpNoOperator(t *testing.T) {
	const clients, each, takes, lasts = 5, 16, 40 * time.Millisecond, 20 * time.Second
	for _, path := range []string{
		"/api/v1/events?q=%s", "/api/v1/events?q=%s&watch=true", "/api/v1/events?task=%s",
		"/api/v1/tasks/topics/topic-0001/runs", "/api/v1/events?limit=9&continue=%s",
	} {
		t.Run(path, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &busyStore{takes: takes, full: strings.Contains(path, "q=")}
				h := New(Config{Source: boardWith(sample(3)), Events: store, Runs: store})
				ctx, stop := context.WithCancel(t.Context())
				var asked, answered, refused atomic.Int64
				ask := func(ctx context.Context, from, path, lastID string, h http.Handler) int {
					ctx, cancel := context.WithTimeout(ctx, 3*time.Second) // who watches comes again
					defer cancel()
					r := httptest.NewRequestWithContext(ctx, http.MethodGet, path, http.NoBody)
					r.RemoteAddr = from + ":1"
					r.Header.Set("Last-Event-ID", lastID)
					w := httptest.NewRecorder()
					h.ServeHTTP(w, r)
					return w.Code
				}
				for client := range clients {
					for i := range each {
						go func() {
							for n := 0; ctx.Err() == nil; n++ {
								word := fmt.Sprintf("%d-%d-%d", client, i, n)
								if strings.Contains(path, "continue") {
									q := query{paging: paging{scope: "/api/v1/events?"}}
									word = q.next(word, time.Now())
								}
								asked.Add(1)
								switch ask(ctx, fmt.Sprintf("192.0.2.%d", client), strings.ReplaceAll(path, "%s", word), word, h) {
								case http.StatusOK:
									answered.Add(1)
								case http.StatusTooManyRequests, http.StatusServiceUnavailable:
									refused.Add(1)
								default:
									t.Errorf("%s: neither answered nor refused", path)
								}
								time.Sleep(20 * time.Millisecond)
							}
						}()
					}
				}
				mine := int64(0)
				begin := time.Now()
				for time.Since(begin) < lasts {
					time.Sleep(500 * time.Millisecond)
					before := time.Now()
					path := strings.TrimSuffix(strings.ReplaceAll(path, "%s", "orders"), "&watch=true")
					if strings.Contains(path, "continue") {
						path = "/api/v1/events"
					}
					if code := ask(ctx, "192.0.2.99", path, "", granting(h, operator)); code != http.StatusOK {
						t.Errorf("%s: the operator is answered %d", path, code)
					}
					took := time.Since(before)
					if mine += int64(took / takes); took > scanLimit/eventBatch*takes {
						t.Errorf("%s: the operator waits %v", path, took)
					}
				}
				reads, lasted := store.reads.Load(), time.Since(begin)
				stop()
				time.Sleep(5 * time.Minute) // what was begun is over
				budget := int64(lasted/publicEvery) + publicBurst
				if strings.Contains(path, "watch") {
					budget += int64(lasted / eventPace) // for what is new, once for all who watch
				}
				if theirs := reads - mine; theirs > budget || theirs < budget/2 {
					t.Errorf("%s: the store was read %d times for strangers, want %d at most", path, theirs, budget)
				}
				t.Logf("%s: %d asked, %d answered, %d refused", path, asked.Load(), answered.Load(), refused.Load())
			})
		})
	}
}

// Strangers may have every place there is for requests and for watches; an operator has others.
func TestPlacesOfStrangersAreNotThoseOfOperators(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &busyStore{takes: time.Hour}
		const watchers = 8
		h := New(Config{Source: boardWith(sample(3)), Events: store, Runs: store, MaxWatchers: watchers})
		ctx, cancel := context.WithCancel(t.Context())
		ask := func(h http.Handler, client int, path string) int {
			r := httptest.NewRequestWithContext(ctx, http.MethodGet, path, http.NoBody)
			r.RemoteAddr = fmt.Sprintf("192.0.2.%d:1", client)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w.Code
		}
		for client := range 9 {
			for i := range 20 {
				go ask(h, client, fmt.Sprintf("/api/v1/tasks/topics/topic-000%d/runs", 1+i%3))
				go ask(h, client, "/api/v1/groups?watch=true&q="+fmt.Sprint(i))
			}
		}
		synctest.Wait()
		if code := ask(h, 99, "/api/v1/groups?watch=true"); code != http.StatusServiceUnavailable {
			t.Errorf("one stranger more watches: %d", code)
		}
		for _, path := range []string{"/api/v1/status", "/api/v1/tasks?q=a", "/api/v1/tasks/topics/topic-0001"} {
			if code := ask(granting(h, operator), 99, path); code != http.StatusOK {
				t.Errorf("%s: an operator is answered %d", path, code)
			}
		}
		watching := make(chan int, 1)
		go func() { watching <- ask(granting(h, operator), 99, "/api/v1/groups?watch=true&q=t") }()
		synctest.Wait()
		select {
		case code := <-watching:
			t.Errorf("an operator cannot watch: %d", code)
		default:
		}
		cancel()
		time.Sleep(time.Hour)
	})
}

// Every path of the API refuses a parameter that it does not know, and every parameter refuses what no name can hold.
func TestParametersOfEveryPath(t *testing.T) {
	c := Config{Source: boardWith(sample(3))}.withDefaults()
	s := newServer(c)
	h := handler(c, s)
	path := strings.NewReplacer("{group}", "topics", "tasks/topics/{name}", "tasks/topics/topic-0001",
		"groups/{name}", "groups/topics", "instances/{name}", "instances/a")
	expect := func(target, name string) {
		t.Helper()
		w := get(t, h, target)
		var e web.Error
		err := json.Unmarshal(w.Body.Bytes(), &e)
		if w.Code != http.StatusBadRequest || err != nil || e.Reason != api.ReasonInvalid || !slices.ContainsFunc(e.Errors,
			func(e api.FieldError) bool { return e.Field == name }) {
			t.Errorf("%s: %d %s, want 400 that names %s", target, w.Code, w.Body, name)
		}
	}
	n := 0
	for _, route := range s.routes(c) {
		if !strings.HasPrefix(route.path, "/api/") {
			continue
		}
		n++
		at := path.Replace(path.Replace(route.path))
		expect(at+"?nonsense=1", "nonsense")
		expect(at+"?nonsense", "nonsense")
		expect(at+"?nonsense=1&nonsense=2", "nonsense")
		expect(at+"?a=%zz", "query")
		expect(at+"?"+strings.Repeat("x", maxQuery+1), "query")
		for _, name := range route.params {
			for _, odd := range []string{"%00", "a%00b", "%1b%5b31m", "%0a", "%7f", "%c2%85", "%ff", "%ed%a0%80"} {
				expect(at+"?"+name+"="+odd, name)
			}
		}
	}
	if n < 12 {
		t.Errorf("%d paths of the API were tried", n)
	}
	if w := get(t, h, "/api/v1/tasks?selector=team%09in%20(core)"); w.Code != http.StatusOK {
		t.Errorf("a tab in a selector: %d %s", w.Code, w.Body)
	}
	token := base64.RawURLEncoding.EncodeToString([]byte(`{"k":"a\u0000b","t":1,"s":1}`))
	expect("/api/v1/events?continue="+url.QueryEscape(token), "continue")
}

// An ID that no event has is not looked for.
func TestLastEventIDs(t *testing.T) {
	for id, want := range map[string]string{
		"0000000000005-a": "0000000000005-a", "": "", "a\x01": "", "\xff": "", strings.Repeat("a", maxLength+1): "",
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
		r.Header.Set("Last-Event-ID", id)
		if got := lastEvent(r); got != want {
			t.Errorf("%.20q is %.20q", id, got)
		}
	}
}

// Turns come one after the other, some at once after a pause, and nobody waits longer than they would.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pace
		begin := time.Now()
		for i := range 40 {
			if err := p.turn(t.Context(), true, time.Minute); err != nil {
				t.Fatal(err)
			}
			if got, want := time.Since(begin), time.Duration(max(0, i+1-publicBurst))*publicEvery; got != want {
				t.Errorf("turn %d after %v, want %v", i, got, want)
			}
		}
		for range 5 {
			p.reserve(time.Now(), time.Minute)
		}
		if err := p.turn(t.Context(), true, 5*publicEvery); err != errBusy || time.Since(begin) != 30*publicEvery { //nolint:errorlint // it is the very value
			t.Errorf("%v after %v", err, time.Since(begin))
		}
		if err := p.turn(t.Context(), false, 0); err != nil {
			t.Errorf("one who is trusted waits: %v", err)
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if err := p.turn(gone, true, time.Minute); err == nil {
			t.Error("a turn for who is gone")
		}
	})
}
