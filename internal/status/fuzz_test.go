package status

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/web"
)

// FuzzRequest: a request may ask anything for a list, in its query or in the id of the event it goes on from. The
// answer is a list, a stream or a problem that names what is wrong. A list may be continued with the token it gave.
func FuzzRequest(f *testing.F) {
	for _, query := range []string{
		"", "limit=2", "limit=0&state=x&oops=1", "selector=team%20in%20(core,edge),!zone", "selector=a%20b",
		"continue=zzz", "watch=true", "watch=true&continue=eyJrIjoiYSJ9",
		"q=TOPIC&group=topics&group=x&instance=a", "since=10m", "since=2026-01-02T03:04:05Z", "since=-5m",
		"state=running,unassigned", "limit=2&limit=3", "limit=1",
		"a=%zz", "limit=99999999999999999999", "watch=1&state=running", "tail=0", "tail=5", "continue=e30",
	} {
		for _, list := range lists {
			f.Add(list, query, "")
		}
		f.Add("/api/v1/tasks", query, "0-1")
	}
	board := boardWith(sample(9))
	h := New(Config{Source: board})
	f.Fuzz(func(t *testing.T, path, query, last string) {
		u := &url.URL{Path: path, RawQuery: query}
		if !strings.HasPrefix(path, "/") {
			return
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if watches(query) {
			cancel() // a stream ends with its request
		}
		req := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", http.NoBody)
		req.URL, req.RequestURI = u, u.RequestURI()
		req.Header.Set("Last-Event-ID", last)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, req)
		switch {
		case w.Code == http.StatusOK && strings.HasPrefix(path, "/api/v1/") &&
			w.Header().Get("Content-Type") == "application/json":
			continues(t, h, path, query, w)
		case w.Code >= 500 && w.Code != http.StatusServiceUnavailable: // the owner of a log may have no address
			t.Fatalf("%s?%s: %d %s", path, query, w.Code, w.Body)
		case w.Code >= 400:
			var e web.Error
			if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil || e.Reason == "" || e.Detail == "" ||
				e.Status != w.Code {
				t.Fatalf("%s?%s: %d %s", path, query, w.Code, w.Body)
			}
			for _, field := range e.Errors {
				if field.Message == "" {
					t.Fatalf("%s?%s: an error without a word: %s", path, query, w.Body)
				}
			}
		}
	})
}

var lists = []string{
	"/api/v1/status", "/api/v1/groups", "/api/v1/tasks", "/api/v1/instances", "/api/v1/locks", "/api/v1/events",
	"/api/v1/tasks/topics/topic-0001/logs",
}

// watches says whether the query asks for a stream, or may.
func watches(query string) bool { return strings.Contains(query, "w") || strings.Contains(query, "%") }

// continues follows a list that says it goes on.
func continues(t *testing.T, h http.Handler, path, query string, w *httptest.ResponseRecorder) {
	t.Helper()
	var page struct {
		Continue string `json:"continue"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil {
		t.Fatalf("%s?%s: %v in %s", path, query, err, w.Body)
	}
	if page.Continue == "" {
		return
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		t.Fatalf("%s?%s was taken: %v", path, query, err)
	}
	values.Set("continue", page.Continue)
	next := httptest.NewRecorder()
	h.ServeHTTP(
		next, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path+"?"+values.Encode(), http.NoBody),
	)
	if next.Code != http.StatusOK {
		t.Fatalf("%s?%s: its own token: %d %s", path, query, next.Code, next.Body)
	}
}
