package cli

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/internal/status"
	"github.com/shardctl/shardctl/pkg/api"
)

// TestWaitReadsTheStore holds that with --config each look is a new one.
func TestWaitReadsTheStore(t *testing.T) {
	looks, g := 0, globals()
	g.Offline = func(context.Context, []string) (*snapshot.Cluster, error) {
		s := sample()
		if looks++; looks > 2 {
			for i := range s.Tasks.All() {
				s.Tasks.All()[i].State = api.Running
			}
		}
		return s, nil
	}
	got := shardctl(t, g, "wait", "--for=running", "topics/topic-004", "--config", "a.yaml")
	if got != (outcome{}) || looks != 3 {
		t.Errorf("%+v after %d looks", got, looks)
	}
}

func TestWait(t *testing.T) {
	done := sample()
	for i := range done.Tasks.All() {
		done.Tasks.All()[i].State = api.Done
	}
	done.Status.Groups = []api.Group{
		{Name: "topics", TaskCounts: api.TaskCounts{Tasks: 5, Done: 5}},
		{Name: "jobs", TaskCounts: api.TaskCounts{Tasks: 1, Done: 1}},
	}
	failed := sample()
	failed.Status.Groups = []api.Group{{Name: "topics", TaskCounts: api.TaskCounts{Tasks: 5, Done: 4, Failed: 1}}}
	stale, staleFailed := away(), away()
	staleFailed.Status.Groups = failed.Status.Groups
	even := sample()
	even.Status.Groups = []api.Group{
		{Name: "topics", TaskCounts: api.TaskCounts{Tasks: 5, Running: 3, Backoff: 1, Paused: 1}, Imbalance: 1},
	}
	uneven := sample()
	uneven.Status.Groups = []api.Group{{Name: "topics", TaskCounts: api.TaskCounts{Tasks: 5, Running: 5}, Imbalance: 4}}

	for name, c := range map[string]struct {
		snapshot *snapshot.Cluster
		line     string
		code     int
		says     string
	}{
		"all done":                         {done, "--for=done", 0, ""},
		"done counts as running":           {done, "--for=running", 0, ""},
		"not done":                         {sample(), "--for=done -g jobs", 1, "jobs: 1 waiting"},
		"a group runs":                     {sample(), "--for=running -g jobs", 0, ""},
		"another does not":                 {sample(), "--for=running", 1, "topics: 1 starting, 1 backoff, 1 unassigned"},
		"a task runs":                      {sample(), "--for=running topics/topic-001", 0, ""},
		"by -g":                            {sample(), "--for=running -g topics topic-002", 0, ""},
		"a pattern":                        {sample(), "--for=running topics/topic-00[12]", 0, ""},
		"a task does not":                  {sample(), "--for=running topics/topic-005", 1, "1 unassigned"},
		"an unknown task":                  {sample(), "--for=running topics/none", 1, "no task topics/none is known yet"},
		"an unknown group":                 {sample(), "--for=balanced -g none", 1, "no group none is known yet"},
		"failed never ends":                {failed, "--for=done --timeout=1h", 1, "1 failed"},
		"stale says nothing":               {stale, "--for=running -g jobs", 3, "store is unreachable"},
		"stale says nothing of a task":     {stale, "--for=running topics/topic-001", 3, "store is unreachable"},
		"stale says nothing of a failure":  {staleFailed, "--for=done -g topics", 3, "store is unreachable"},
		"stale says nothing with warn too": {stale, "--for=running topics/topic-001 --stale=warn", 1, "unreachable"},
		"stale, says since when and why": {
			stale, "--for=running topics/topic-001", 3,
			"stale: the store has not answered since 2026-01-02T03:03:53.000Z, 12s ago: what is shown may be out of " +
				"date (no reachable servers)\nerror: not running after 0s: ",
		},
		"balanced":          {even, "--for=balanced", 0, ""},
		"uneven":            {uneven, "--for=balanced", 1, "imbalance 4"},
		"unassigned":        {sample(), "--for=balanced -g topics", 1, "1 starting, 1 unassigned"},
		"nothing known yet": {&snapshot.Cluster{}, "--for=balanced", 1, "no group is known yet"},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"wait", "--timeout", "0"}, strings.Fields(c.line)...)
			got := shardctl(t, globals(), append(args, "--server", replica(t, board(c.snapshot)))...)
			if got.code != c.code || !strings.Contains(got.err, c.says) || got.out != "" {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestWaitSeesItCome(t *testing.T) {
	b := board(sample())
	looks := 0
	h := status.New(status.Config{Source: b})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if looks++; looks == 1 {
			http.Error(w, "not yet", http.StatusServiceUnavailable) // an unreachable replica is waited for as well
			return
		}
		h.ServeHTTP(w, r)
		next := sample()
		next.Status.Groups = []api.Group{{Name: "topics", TaskCounts: api.TaskCounts{Tasks: 5, Running: 5}}}
		b.Publish(next)
	}))
	defer server.Close()
	got := shardctl(t, globals(), "wait", "--for=running", "--timeout=1m", "--server", server.URL)
	if got.code != 0 || looks != 3 {
		t.Errorf("after %d looks: %+v", looks, got)
	}
}
