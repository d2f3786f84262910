package cli

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/internal/status"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/client"
	testdirect "github.com/shardctl/shardctl/test/direct"
)

// away is the sample as a replica shows it whose store has not answered for 12 s.
func away() *snapshot.Cluster {
	s := sample()
	s.Status.Stale, s.Status.ObservedAt = true, ago(12*time.Second)
	s.Status.Store = api.Store{Kind: "mongodb", Error: "no reachable servers"}
	return s
}

// deaf are events and mutexes of a store that does not answer.
type deaf struct{ fakeEvents }

func (deaf) Events(context.Context, snapshot.EventQuery) ([]api.Event, error) {
	return nil, errors.New("no reachable servers")
}

// Every command that reads obeys --stale: what is stale is shown with a line that says since when and why. Only with
// fail is the exit code another one than for the same answer while it is fresh.
func TestStaleAnswersAreReported(t *testing.T) {
	const line = "stale: the store has not answered since 2026-01-02T03:03:53.000Z, 12s ago: " +
		"what is shown may be out of date (no reachable servers)\n"
	fresh := replica(t, board(sample()))
	stale := serve(t, status.Config{Source: board(away()), Events: deaf{}, Runs: ran})
	for command, code := range map[string]int{
		"status": 0, "status -o json": 0,
		"get tasks": 0, "get tasks topics/topic-001": 0, "get tasks -o json": 0,
		"get tasks topics/topic-001 -o yaml": 0,
		"get instances":                      0, "get groups": 0, "get events": 0, "get locks -o wide": 0,
		"get overrides": 0, "get problems -o yaml": 0, "get tasks -o name": 0,
		"get tasks topics/none": 1, "get cats": 2,
		"describe task": 0, "describe task topics/topic-001": 0, "describe task topics/topic-001 -o json": 0,
		"describe instance a -o yaml": 0, "describe group topics": 0, "describe group none": 1,
		"wait --for=running --timeout=0 topics/topic-005": 1,
	} {
		ask := func(server, mode string) outcome {
			args := append(strings.Fields(command), "--server", server)
			if mode != "" {
				args = append(args, "--stale="+mode)
			}
			return shardctl(t, globals(), args...)
		}
		for _, mode := range []string{"", "warn", "fail"} {
			if got := ask(fresh, mode); got.code != code || strings.Contains(got.err, "stale:") {
				t.Errorf("%s, %q, fresh: %+v", command, mode, got)
			}
			want := code
			reads := command != "get cats"
			if reads && (mode == "fail" || mode == "" && strings.HasPrefix(command, "wait")) {
				want = CodeStale
			}
			got := ask(stale, mode)
			if got.code != want || strings.Contains(got.err, line) != reads {
				t.Errorf("%s, %q, stale: %+v, want code %d", command, mode, got, want)
			}
			mark := map[string]string{"json": `"stale": true`, "yaml": "stale: true"}[command[len(command)-4:]]
			if !strings.Contains(got.out, mark) {
				t.Errorf("%s: no %s in %s", command, mark, got.out)
			}
		}
	}
	if got := shardctl(t, globals(), "get", "tasks", "--stale=no", "--server", fresh); got.code != CodeUsage {
		t.Errorf("%+v", got)
	}
}

// A drain is not over because a replica that does not reach the store knows of nothing that is left.
func TestDrainWaitsForTheStore(t *testing.T) {
	s := away()
	s.Instances[1].Owned = nil
	server := operated(t, board(s), &obeying{}, nil)
	got := shardctl(t, globals(), "drain", "b", "--timeout", "1ms", "--server", server)
	if got.code != CodeNo || !strings.Contains(got.err, "the store is unreachable") {
		t.Errorf("%+v", got)
	}
}

// A watch says when what it shows becomes stale, and when it is fresh again; with fail it ends.
func TestWatchesSayWhenTheyAreStale(t *testing.T) {
	const stale = "03:04:05 stale: the store has not answered since 2026-01-02T03:03:53.000Z, 12s ago"
	for _, command := range []string{
		"get tasks -w", "get events -w", "get tasks -w -o json", "status -w", "status -w -o json",
	} {
		for _, mode := range []string{"warn", "fail"} {
			t.Run(command+" "+mode, func(t *testing.T) {
				b := board(sample())
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				out, ended := &lines{ch: make(chan string, 1000)}, make(chan error, 1)
				notes := &lines{ch: make(chan string, 100)}
				cmd := root0(globals())
				cmd.SetArgs(append(strings.Fields(command), "--server", replica(t, b), "--stale="+mode))
				cmd.SetOut(out)
				cmd.SetErr(notes)
				go func() { ended <- cmd.ExecuteContext(ctx) }()
				out.next(t)
				b.Publish(away())
				if mode == "fail" {
					var exit Exit
					if err := <-ended; !errors.As(err, &exit) || exit.Code != CodeStale {
						t.Errorf("ended with %v", err)
					}
					if got := notes.next(t); !strings.HasPrefix(got, stale[len("03:04:05 "):]) {
						t.Errorf("got %q", got)
					}
					return
				}
				if got := notes.next(t); !strings.HasPrefix(got, stale) {
					t.Errorf("got %q", got)
				}
				b.Publish(sample())
				if got := notes.next(t); got != "03:04:05 fresh again: the store answers" {
					t.Errorf("got %q", got)
				}
				cancel()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestRequestsEnd holds that no command waits for ever. That is so for a replica that takes a request and does not
// answer it, and for a store that does not.
func TestRequestsEnd(t *testing.T) {
	over := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-over:
		}
	}))
	defer server.Close()
	defer close(over)
	stuck := func(ctx context.Context, _ []string) (*snapshot.Cluster, error) {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	for _, args := range []string{
		"get tasks", "get tasks -w", "get events", "status", "status -w", "healthcheck", "get locks --config x.yaml",
	} {
		g := globals()
		g.Offline = stuck
		done := make(chan outcome, 1)
		all := append(strings.Fields(args), "--request-timeout", "50ms", "--server", server.URL)
		go func() { done <- shardctl(t, g, all...) }()
		select {
		case got := <-done:
			if got.code != CodeNo || !strings.Contains(got.err, "in time") && !strings.Contains(got.err, "deadline") {
				t.Errorf("%s: %+v", args, got)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%s waits for ever", args)
		}
	}
	if got := shardctl(t, globals(), "get", "tasks", "--request-timeout", "-1s"); got.code != CodeUsage ||
		!strings.Contains(got.err, "--request-timeout -1s") {
		t.Errorf("below 0: %+v", got)
	}
}

// TestWatchesOutliveTheTimeout holds that --request-timeout bounds how long a watch takes to begin, not how long it
// goes on.
func TestWatchesOutliveTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := board(sample())
		const timeout = time.Minute
		c, err := client.New("http://replica", client.WithTimeout(timeout),
			client.WithHTTPClient(testdirect.Client(status.New(status.Config{Source: b}))))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		seen := 0
		err = c.Tasks().Watch(ctx, client.WatchOptions{}, func(client.Change[api.Task]) error {
			if seen++; seen == 1 {
				time.AfterFunc(3*timeout, func() {
					next := sample()
					next.Tasks.All()[0].Restarts++
					b.Publish(next)
				})
				return nil
			}
			cancel()
			return nil
		})
		if seen != 2 || ctx.Err() == nil {
			t.Errorf("%d changes, then %v", seen, err)
		}
	})
}
