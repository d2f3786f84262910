package main

import (
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/config"
	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/internal/status"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// output is a replica that keeps the output of one task.
type output struct{ key, line string }

func (o output) Output(key string) (tasks.Output, bool) {
	return tasks.Output{Held: true, Lines: []tasks.Line{{Seq: 1, Text: o.line}}}, key == o.key
}

// TestPeerLogsByAnAuthorityOfOnesOwn holds that the output of a task on another replica is read over TLS by
// server.tls.caFile, and is refused without it.
func TestPeerLogsByAnAuthorityOfOnesOwn(t *testing.T) {
	snapshot := snapshot.Cluster{
		Tasks: snapshot.Listed([]api.Task{
			{Key: "g/t", Group: "g", Name: "t", Owner: api.Owner{Instance: "b", Session: "s-b"}, State: api.Running},
		}),
		Instances: []api.Instance{{Name: "b", Session: "s-b", State: api.Live}},
		Status:    api.Status{Instance: "b"},
	}
	var owner status.Board
	owner.Publish(&snapshot)
	b := httptest.NewTLSServer(
		status.New(status.Config{Source: &owner, Logs: output{"g/t", "from b"}, Logger: logr.Discard()}),
	)
	defer b.Close()
	caFile := filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: b.Certificate().Raw})
	if err := os.WriteFile(caFile, block, 0o600); err != nil {
		t.Fatal(err)
	}

	seen := snapshot
	seen.Status.Instance = "a"
	seen.Instances = []api.Instance{snapshot.Instances[0]}
	seen.Instances[0].Address = strings.TrimPrefix(b.URL, "https://")
	var board status.Board
	board.Publish(&seen)
	for _, test := range []struct {
		caFile, want string
		code         int
	}{
		{caFile, "from b\n", http.StatusOK},
		{"", "did not answer", http.StatusServiceUnavailable},
	} {
		tls := config.TLS{CertFile: "c", KeyFile: "k", CAFile: test.caFile}
		peers, err := peerClient(tls, logr.Discard())
		if err != nil {
			t.Fatal(err)
		}
		handler := status.New(
			status.Config{Source: &board, Peers: peers, PeerScheme: scheme(tls), Logger: logr.Discard()},
		)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/v1/tasks/g/t/logs", http.NoBody))
		body, err := io.ReadAll(w.Body)
		if err != nil || w.Code != test.code || !strings.Contains(string(body), test.want) {
			t.Errorf("caFile %q: %d %q, %v; want %d %q", test.caFile, w.Code, body, err, test.code, test.want)
		}
	}
}
