package clients_test

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// stranger is a user that no one else is, and that has no name.
const stranger = 65533

// refusals is what an application writes once it has refused a socket: the libraries say why, and the trace of the
// shell shows that it has made no call.
func refusals(of language) string {
	if of.name == "shell" {
		return "sleep 0.2"
	}
	return ", as this process, or root"
}

// TestASocketOfAnotherUser: whoever listens first in a shared directory is not the replica. It is sent nothing, neither
// the token nor what runs.
func TestASocketOfAnotherUser(t *testing.T) {
	shell := language{
		name: "shell", programs: []string{"bash", "curl", "jq"},
		command: func(*testing.T) []string {
			return []string{"bash", "-x", "../../examples/application/worker.sh", "true"}
		},
	}
	for _, of := range append([]language{shell}, languages...) {
		t.Run(of.name, func(t *testing.T) {
			need(t, of.programs...)
			if os.Geteuid() != 0 {
				t.Skip("needs root, to listen as another user")
			}
			dir, err := os.MkdirTemp("", "shardctl-shared-") //nolint:usetesting // others cannot enter that of the test
			if err == nil {
				t.Cleanup(func() { _ = os.RemoveAll(dir) })
				err = os.Chmod(dir, 0o777)
			}
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, "app.sock")
			server := newRecorder(t, listenAs(t, stranger, path))
			said := run401(t, of.command(t), path, secret)
			until(t, "it neither calls nor refuses", func() bool {
				return server.calls.Load() > 0 || strings.Contains(said.String(), refusals(of))
			})
			if n := server.calls.Load(); n > 0 {
				t.Errorf("it makes %d calls to another user", n)
			}
		})
	}
}

// recorder answers every call with 401, and keeps what the calls bear.
type recorder struct {
	calls    atomic.Int64
	injected atomic.Bool
	bears    atomic.Value // the last Authorization, a string
}

func newRecorder(t *testing.T, listener net.Listener) *recorder {
	t.Helper()
	r := &recorder{}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(
		func(w http.ResponseWriter, req *http.Request) {
			r.injected.Store(r.injected.Load() || req.Header.Get("Injected") != "")
			r.bears.Store(req.Header.Get("Authorization"))
			r.calls.Add(1)
			w.WriteHeader(http.StatusUnauthorized)
		},
	)}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return r
}

// run401 runs an application until the test ends, and returns what it writes.
func run401(t *testing.T, command []string, path, token string) *lockedBuffer {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.Env = append(os.Environ(), "SHARDCTL_APP=unix:"+path, "SHARDCTL_APP_TOKEN="+token, "PYTHONDONTWRITEBYTECODE=1")
	said := &lockedBuffer{}
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		said.note("ended")
		close(ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
		if t.Failed() {
			t.Logf("%s", said)
		}
	})
	return said
}

// lockedBuffer takes what a process writes while others read it.
type lockedBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write implements [io.Writer].
func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) note(text string) { _, _ = b.Write([]byte("\n" + text + "\n")) }

// String implements [fmt.Stringer].
func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// listenAs listens at a path as another user would: the socket and its credentials are that user's.
func listenAs(t *testing.T, uid uintptr, path string) net.Listener {
	t.Helper()
	type result struct {
		listener net.Listener
		err      error
	}
	listens := make(chan result)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with its user
		const keep = ^uintptr(0)
		if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, keep, uid, keep); e != 0 {
			listens <- result{nil, e}
			return
		}
		listener, err := net.Listen("unix", path)
		listens <- result{listener, err}
	}()
	r := <-listens
	if r.err != nil {
		t.Fatal(r.err)
	}
	t.Cleanup(func() { _ = r.listener.Close() })
	return r.listener
}

// TestTheLineEndOfAToken: a token that comes from a file has a line end, which is no part of it, and nothing in a token
// makes another header.
func TestTheLineEndOfAToken(t *testing.T) {
	for _, of := range languages {
		t.Run(of.name, func(t *testing.T) {
			need(t, of.programs...)
			command := of.command(t)
			for _, token := range []string{secret, secret + "\n", secret + "\r\n", "x\r\nInjected: yes\r\ny: z"} {
				t.Run(fmt.Sprintf("%q", token), func(t *testing.T) {
					path := filepath.Join(t.TempDir(), "app.sock")
					listener, err := net.Listen("unix", path)
					if err != nil {
						t.Fatal(err)
					}
					server := newRecorder(t, listener)
					said := run401(t, command, path, token)
					calls := strings.HasPrefix(token, secret)
					until(t, "it neither calls nor refuses", func() bool {
						return server.calls.Load() > 0 ||
							!calls && (strings.Contains(said.String(), "ended") || strings.Contains(said.String(), "answer"))
					})
					if bears := server.bears.Load(); calls && bears != "Bearer "+secret {
						t.Errorf("it sends %q", bears)
					}
					if server.injected.Load() {
						t.Error("the token makes another header")
					}
				})
			}
		})
	}
}
