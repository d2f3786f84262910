package program

import (
	"context"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/application"
	"github.com/shardctl/shardctl/internal/cli"
	"github.com/shardctl/shardctl/internal/settings"
	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/internal/status"
	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/pkg/api"
)

// output is a replica that keeps the output of one task.
type output struct{ key, line string }

func (o output) Output(key string) (taskrun.Output, bool) {
	return taskrun.Output{Held: true, Lines: []taskrun.Line{{Seq: 1, Text: o.line}}}, key == o.key
}

// An address that another process has at the start is waited for on every listener: a program that starts again may
// find its own one of before, and no supervisor should give up for that. One that is wrong for good is told at once.
func TestAddressesInUseAreWaitedFor(t *testing.T) {
	taken := func(network, address string) net.Listener {
		l, err := net.Listen(network, address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		return l
	}
	overTCP := func(ctx context.Context, address string) (net.Listener, error) {
		return listen(ctx, address, settings.TLS{}, logr.Discard())
	}
	for name, source := range map[string]struct {
		take func() (net.Listener, string)
		open func(ctx context.Context, address string) (net.Listener, error)
	}{
		"server.listen": {func() (net.Listener, string) {
			l := taken("tcp", "127.0.0.1:0")
			return l, l.Addr().String()
		}, overTCP},
		"app.listen, TCP": {func() (net.Listener, string) {
			l := taken("tcp", "127.0.0.1:0")
			return l, l.Addr().String()
		}, application.Listen},
		"app.listen, a socket": {func() (net.Listener, string) {
			path := filepath.Join(t.TempDir(), "s")
			return taken("unix", path), "unix:" + path
		}, application.Listen},
	} {
		for _, tt := range []struct {
			what         string
			freed, leave time.Duration // 0: never
			took         time.Duration
			code         int
			want         string
		}{
			{"freed", 20 * time.Second, 0, 20 * time.Second, 0, ""},
			{"never freed", 0, 0, 30 * time.Second, cli.CodeNo, name + ": "},
			{"asked to stop", 0, 5 * time.Second, 5 * time.Second, cli.CodeNo, "drained"},
		} {
			t.Run(name+" "+tt.what, func(t *testing.T) {
				first, address := source.take()
				synctest.Test(t, func(t *testing.T) {
					ctx, leave := context.WithCancelCause(t.Context())
					defer leave(nil)
					if tt.freed > 0 {
						time.AfterFunc(tt.freed, func() { _ = first.Close() })
					}
					if tt.leave > 0 {
						time.AfterFunc(tt.leave, func() { leave(errDrained) })
					}
					w := &workerProcess{log: logr.Discard()}
					began := time.Now()
					l, err := w.listen(ctx, name, address, func(ctx context.Context) (net.Listener, error) {
						return source.open(ctx, address)
					})
					if err == nil {
						_ = l.Close()
					}
					if took := time.Since(began); took < tt.took || took > tt.took+time.Second {
						t.Errorf("it took %v, want %v", took, tt.took)
					}
					var said strings.Builder
					if code := cli.Report(&said, err); code != tt.code || !strings.Contains(said.String(), tt.want) {
						t.Errorf("code %d, %q; want %d, %q", code, &said, tt.code, tt.want)
					}
				})
			})
		}
	}
	w := &workerProcess{log: logr.Discard()}
	_, err := w.listen(t.Context(), "server.listen", "127.0.0.1:x", func(ctx context.Context) (net.Listener, error) {
		return overTCP(ctx, "127.0.0.1:x")
	})
	if code := cli.Report(io.Discard, asSupervised(err)); code != cli.CodeConfig {
		t.Errorf("an address that is none: %v, code %d", err, code)
	}
}

// TestPeerLogsByAnAuthorityOfOnesOwn holds that the output of a task on another replica is read over TLS by
// server.tls.caFile, and is refused without it.
func TestPeerLogsByAnAuthorityOfOnesOwn(t *testing.T) {
	shown := snapshot.Cluster{
		Tasks: snapshot.Listed([]api.Task{
			{Key: "g/t", Group: "g", Name: "t", Owner: api.Owner{Instance: "b", Session: "s-b"}, State: api.Running},
		}),
		Instances: []api.Instance{{Name: "b", Session: "s-b", State: api.Live}},
		Status:    api.Status{Instance: "b"},
	}
	var owner snapshot.Board
	owner.Publish(&shown)
	b := httptest.NewTLSServer(
		status.New(status.Config{Source: &owner, Logs: output{"g/t", "from b"}, Logger: logr.Discard()}),
	)
	defer b.Close()
	caFile := filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: b.Certificate().Raw})
	if err := os.WriteFile(caFile, block, 0o600); err != nil {
		t.Fatal(err)
	}

	seen := shown
	seen.Status.Instance = "a"
	seen.Instances = []api.Instance{shown.Instances[0]}
	seen.Instances[0].Address = strings.TrimPrefix(b.URL, "https://")
	var board snapshot.Board
	board.Publish(&seen)
	for _, test := range []struct {
		caFile, want string
		code         int
	}{
		{caFile, "from b\n", http.StatusOK},
		{"", "did not answer", http.StatusServiceUnavailable},
	} {
		tls := settings.TLS{CertFile: "c", KeyFile: "k", CAFile: test.caFile}
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
