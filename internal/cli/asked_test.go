package cli

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/shardctl/shardctl/internal/status"
)

// Of what is named only that is read, and no list of all.
func TestOnlyWhatIsNamedIsRead(t *testing.T) {
	var mu sync.Mutex
	var asked []string
	read := status.New(status.Config{Source: board(sample()), Events: happened, Runs: ran})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		query.Del("limit")
		mu.Lock()
		asked = append(asked, strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, "/api/v1")+"?"+query.Encode(), "?"))
		mu.Unlock()
		read.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	})
	for line, want := range map[string]string{
		"get tasks topics/topic-001":                             "/tasks/topics/topic-001",
		"get tasks -g topics topic-002 topic-001 topic-001":      "/tasks/topics/topic-001 /tasks/topics/topic-002", //nolint:dupword // named twice
		"get tasks topics/topic-00[12]":                          "/tasks?group=topics",
		"get tasks topics/topic-001 topics/*2":                   "/tasks?group=topics",
		"get tasks */topic-001":                                  "/tasks",
		"get tasks topics/topic-001 -l team":                     "/tasks?group=topics&q=topics%2Ftopic-001&selector=team",
		"get locks locks/backup":                                 "/locks?q=locks%2Fbackup",
		"wait --for=running --timeout=0 topics/topic-001":        "/tasks/topics/topic-001",
		"wait --for=running --timeout=0 topics/topic-00[12]":     "/tasks?group=topics",
		"wait --for=running --timeout=0 -g topics topic-001":     "/tasks/topics/topic-001",
		"wait --for=running --timeout=0 -g jobs":                 "/groups?group=jobs",
		"get tasks topics/none topics/topic-001 -g jobs -o name": "",
	} {
		asked = nil
		got := shardctl(t, globals(), append(strings.Fields(line), "--server", server.URL)...)
		mu.Lock()
		if text := strings.Join(asked, " "); text != want || (got.code != 0) != strings.Contains(line, "none") {
			t.Errorf("%s: asked %s, want %s; %+v", line, text, want, got)
		}
		mu.Unlock()
	}
	// A name that is not there is told from those that are.
	asked = nil
	got := shardctl(t, globals(), "get", "tasks", "topics/topic-01", "--server", server.URL)
	if got.code != CodeNo || !strings.Contains(got.err, "did you mean topics/topic-") ||
		!slices.Contains(asked, "/tasks") {
		t.Errorf("%+v, asked %v", got, asked)
	}
}
