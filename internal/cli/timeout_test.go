package cli

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/status"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/client"
)

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
	stuck := func(ctx context.Context, _ []string) (*status.Snapshot, error) {
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
		case <-time.After(30 * time.Second):
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
	b := board(sample())
	const timeout = 100 * time.Millisecond
	c, err := client.New(replica(t, b), client.WithTimeout(timeout))
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
				next.Tasks[0].Restarts++
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
}
