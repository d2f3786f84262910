package shardhttp_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/pkg/shard"
	"github.com/shardctl/shardctl/pkg/shard/shardhttp"
	"github.com/shardctl/shardctl/pkg/store/memory"
)

// owning starts a replica that shows itself as the owner of the key topics/one, whose requests go to address.
func owning(t *testing.T, address string, m shard.Metrics) *shard.Replica {
	t.Helper()
	r, err := shard.Start(t.Context(), shard.Config{
		Group: "topics", Keys: []string{"one"}, Instance: "a", Address: address, Settle: -1,
		Options: shard.Options{OpenStore: memory.New(), Metrics: m},
	}, func(ctx context.Context, _ shard.Lease) error {
		<-ctx.Done()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	for board := r.Inside().Board(); ; {
		changed := board.Changed()
		if s := board.Snapshot(); s != nil {
			if _, owned := s.Owner("topics/one"); owned {
				return r
			}
		}
		<-changed
	}
}

// get returns the answer, and fails where it is not 200.
func get(t *testing.T, h http.Handler, path string) string {
	t.Helper()
	server := httptest.NewServer(h)
	defer server.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("%s: %s, %v", path, resp.Status, err)
	}
	return string(body)
}

func TestHandlerServesThePage(t *testing.T) {
	mux := http.NewServeMux()
	mux.Handle("/shards/", http.StripPrefix("/shards", shardhttp.Handler(owning(t, "", nil), shardhttp.Options{})))
	for _, path := range []string{"/shards/", "/shards/api/v1/status", "/shards/metrics", "/shards/livez"} {
		get(t, mux, path)
	}
}

// What the process counts is shown if it was asked to count, that of the cluster always.
func TestMetricsOfTheProcess(t *testing.T) {
	for name, counted := range map[string]shard.Metrics{"counted": shardhttp.NewMetrics(), "not counted": nil} {
		shown := get(t, shardhttp.Handler(owning(t, "", counted), shardhttp.Options{}), "/metrics")
		for _, series := range []string{"shardctl_claims_total{", "shardctl_build_info{"} {
			if got, want := strings.Contains(shown, series), counted != nil; got != want {
				t.Errorf("%s: %s is shown: %t, want %t", name, series, got, want)
			}
		}
		if !strings.Contains(shown, "shardctl_cluster_tasks{") {
			t.Errorf("%s: nothing of the cluster is shown", name)
		}
	}
}

func TestRequestsAreForwardedToOwners(t *testing.T) {
	owner := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "the owner has ", r.URL.Path)
	}))
	defer owner.Close()
	r := owning(t, strings.TrimPrefix(owner.URL, "http://"), shardhttp.NewMetrics())
	handler := shardhttp.Handler(r, shardhttp.Options{Route: true})
	if got := get(t, handler, "/route/topics/one/position"); got != "the owner has /position" {
		t.Errorf("the answer is %q", got)
	}
	if shown := get(t, handler, "/metrics"); !strings.Contains(shown, `shardctl_route_requests_total{code="200"} 1`) {
		t.Error("the request was not counted")
	}
}
