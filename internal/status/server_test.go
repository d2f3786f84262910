package status

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/web"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/client"
)

// askedFrom answers a request that comes from an address.
func askedFrom(t *testing.T, h http.Handler, address, path string) *httptest.ResponseRecorder {
	t.Helper()
	w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody)
	r.RemoteAddr = address + ":1"
	h.ServeHTTP(w, r)
	return w
}

// expectFull wants a refusal that says how many there are and when to come again.
func expectFull(t *testing.T, w *httptest.ResponseRecorder, status int, reason, says string) {
	t.Helper()
	var e api.Error
	if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil {
		t.Fatalf("%v in %d %s", err, w.Code, w.Body)
	}
	if w.Code != status || e.Reason != reason || !strings.HasPrefix(e.Detail, says) ||
		w.Header().Get("Retry-After") != "1" {
		t.Errorf("%d %s, Retry-After %q; want %d %s: %s", w.Code, w.Body, w.Header().Get("Retry-After"), status, reason,
			says)
	}
}

// One client cannot have all answers, and all together no more than the replica makes at once. Probes, metrics and who
// asks over loopback are answered all the same.
func TestAnswersAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &slow{may: make(chan struct{})}
		h := New(Config{Source: boardWith(sample(3)), Events: slowStore{slow}})
		done := make(chan int, maxAnswers)
		begin := func(address string, n int) {
			for range n {
				go func() { done <- askedFrom(t, h, address, "/api/v1/events").Code }()
			}
			synctest.Wait()
		}
		begin("192.0.2.1", maxAnswersOfClient)
		for _, path := range []string{"/api/v1/status", "/api/v1/events", "/?view=plain", "/", "/openapi.json"} {
			expectFull(t, askedFrom(t, h, "192.0.2.1", path), 429, api.ReasonTooManyRequests,
				"16 requests are answered already that come from your address")
		}
		if w := askedFrom(t, h, "192.0.2.2", "/api/v1/status"); w.Code != 200 {
			t.Errorf("another client: %d %s", w.Code, w.Body)
		}
		for i := 2; i <= maxAnswers/maxAnswersOfClient; i++ {
			begin(fmt.Sprintf("192.0.2.%d", i), maxAnswersOfClient)
		}
		expectFull(t, askedFrom(t, h, "192.0.2.9", "/api/v1/status"), 503, api.ReasonTooManyRequests,
			"64 requests are answered already")
		for _, path := range []string{"/livez", "/readyz", "/metrics"} {
			if w := askedFrom(t, h, "192.0.2.1", path); w.Code != 200 {
				t.Errorf("%s: %d %s", path, w.Code, w.Body)
			}
		}
		if w := askedFrom(t, h, "127.0.0.1", "/api/v1/status"); w.Code != 200 {
			t.Errorf("over loopback: %d %s", w.Code, w.Body)
		}
		close(slow.may)
		for range maxAnswers {
			if code := <-done; code != 200 {
				t.Errorf("%d", code)
			}
		}
		synctest.Wait()
		if w := askedFrom(t, h, "192.0.2.1", "/api/v1/status"); w.Code != 200 {
			t.Errorf("afterwards: %d %s", w.Code, w.Body)
		}
	})
}

// One client has a quarter of the watches at most. They do not count as answers.
func TestWatchesOfOneClientAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 100
		h := New(Config{Source: boardWith(sample(3)), MaxWatchers: most})
		begin := func(address string) {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/v1/groups?watch=true", http.NoBody)
			r.RemoteAddr = address + ":1"
			go h.ServeHTTP(newTape(), r)
			synctest.Wait()
		}
		for client := 1; client <= 4; client++ {
			for range most / 4 {
				begin(fmt.Sprintf("192.0.2.%d", client))
			}
			if client == 1 {
				expectFull(t, askedFrom(t, h, "192.0.2.1", "/api/v1/tasks?watch=true"), 429, api.ReasonTooManyWatchers,
					"25 connections watch already that come from your address")
			}
		}
		expectFull(t, askedFrom(t, h, "192.0.2.9", "/api/v1/tasks?watch=true"), 503, api.ReasonTooManyWatchers,
			"100 connections watch already")
		if w := askedFrom(t, h, "192.0.2.1", "/api/v1/tasks"); w.Code != 200 {
			t.Errorf("an answer beside the watches: %d %s", w.Code, w.Body)
		}
	})
}

// What a query holds is limited, and the answer says which parameter has how much and what is allowed.
func TestQueriesAreLimited(t *testing.T) {
	h := New(Config{Source: boardWith(sample(3))})
	many := func(n int) string { return strings.TrimSuffix(strings.Repeat("a,", n), ",") }
	long := func(n int) string { return strings.Repeat("a", n) }
	const parts = "selector: it has 101 parts, each value of a set counted; at most 100 are taken"
	for _, c := range []struct{ path, field, says string }{
		{"tasks?q=" + long(1025), "q", "it has 1025 bytes; at most 1024 are taken"},
		{"tasks?group=" + long(1025), "group", "it has 1025 bytes; at most 1024 are taken"},
		{"tasks?instance=" + long(1025), "instance", "it has 1025 bytes; at most 1024 are taken"},
		{"events?task=" + long(1025), "task", "it has 1025 bytes; at most 1024 are taken"},
		{"tasks?continue=" + long(8193), "continue", "it has 8193 bytes; at most 8192 are taken"},
		{"tasks?group=a" + strings.Repeat("&group=a", 100), "group", "it is given 101 times; at most 100 are taken"},
		{"tasks?selector=" + many(101), "selector", parts},
		{"tasks?selector=a&selector=" + many(100), "selector", parts},
		{"tasks?selector=" + url.QueryEscape("k in ("+many(101)+")"), "selector", parts},
		{
			"tasks/topics/topic-0001/logs?instance=" + long(1025), "instance",
			"it has 1025 bytes; at most 1024 are taken",
		},
		{"tasks?q=" + long(maxQuery), "query", "it has 16386 bytes; at most 16384 are taken"},
	} {
		w := get(t, h, "/api/v1/"+c.path)
		var e api.Error
		if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		want := api.FieldError{Field: c.field, Message: c.says}
		if w.Code != 400 || len(e.Errors) != 1 || e.Errors[0] != want {
			t.Errorf("%.60s: %d %v, want %v", c.path, w.Code, e.Errors, want)
		}
	}
	for _, path := range []string{
		"tasks?q=" + long(1024), "tasks?selector=" + many(100), "tasks?group=a" + strings.Repeat("&group=a", 99),
	} {
		if w := get(t, h, "/api/v1/"+path); w.Code != 200 {
			t.Errorf("%.60s: %d %s", path, w.Code, w.Body)
		}
	}
	if w := get(t, h, "/?view=plain&q="+long(1025)); w.Code != 400 {
		t.Errorf("the plain table: %d", w.Code)
	}
}

func TestWatchersAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := New(Config{Source: boardWith(sample(1)), MaxWatchers: 1})
		watching(t, h, "/api/v1/tasks?watch=true", "", func(*tape) {
			if w := get(t, h, "/api/v1/tasks?watch=true"); w.Code != 503 || w.Header().Get("Retry-After") == "" {
				t.Errorf("%d", w.Code)
			}
		})
		w := httptest.NewRecorder()
		h.ServeHTTP(
			w, httptest.NewRequestWithContext(t.Context(), http.MethodHead, "/api/v1/tasks?watch=true", http.NoBody),
		)
		if w.Code != 200 || w.Body.Len() != 0 {
			t.Errorf("HEAD: %d %q", w.Code, w.Body)
		}
	})
}

// A watcher must not hold up a shutdown: its stream is ended, and Serve returns long before the grace is over.
func TestServeEndsWithItsWatchers(t *testing.T) {
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	served := make(chan error, 1)
	go func() {
		served <- web.Serve(ctx, ln, New(Config{Source: boardWith(sample(3))}), web.ServerConnections(), time.Hour, logr.Discard())
	}()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	c, err := client.New("http://"+ln.Addr().String(), client.WithHTTPClient(&http.Client{Transport: transport}))
	if err != nil {
		t.Fatal(err)
	}
	begun, ended := make(chan struct{}), make(chan error, 2)
	watching, leave := context.WithCancel(t.Context())
	defer leave()
	go func() {
		o := client.WatchOptions{Broken: func(err error) { ended <- err; leave() }}
		err := c.Tasks().Watch(watching, o, func(change client.Change[api.Task]) error {
			if change.Kind != client.Snapshot || len(change.Items) != 3 {
				return fmt.Errorf("got %+v", change)
			}
			close(begun)
			return nil
		})
		ended <- err
	}()
	<-begun
	cancel()
	limit := time.After(30 * time.Second)
	for range 2 {
		select {
		case err := <-ended:
			if err == nil {
				t.Error("the watcher was not informed")
			}
		case err := <-served:
			if err != nil {
				t.Error(err)
			}
		case <-limit:
			t.Fatal("the watcher holds up the shutdown")
		}
	}
}
