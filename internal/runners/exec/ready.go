package exec

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"
)

// readiness says when a started command counts as running.
type readiness struct {
	rule   Ready
	socket *net.UnixConn // where READY=1 is expected, nil without Notify
	path   string        // of the socket, "@…" when it is in Linux's abstract namespace
	dir    string        // to remove, empty when the socket is in no directory

	once  sync.Once
	ready chan struct{}
	heard sync.WaitGroup
}

// newReadiness opens what the rule needs. Close it.
func newReadiness(ctx context.Context, rule Ready) (*readiness, error) {
	r := &readiness{rule: rule, ready: make(chan struct{})}
	if !rule.Notify {
		return r, nil
	}
	if err := r.listen(ctx); err != nil {
		r.close()
		return nil, fmt.Errorf("exec.ready.notify: %w", err)
	}
	r.heard.Go(r.hear)
	return r, nil
}

// listen opens the socket, on Linux without a file: a container's file system may be read-only.
func (r *readiness) listen(ctx context.Context) error {
	r.path = "@shardctl-notify-" + rand.Text()
	if runtime.GOOS != "linux" {
		dir, err := os.MkdirTemp("", "shardctl-notify-")
		if err != nil {
			return fmt.Errorf("make a directory for the socket: %w", err)
		}
		r.dir, r.path = dir, filepath.Join(dir, "s")
	}
	conn, err := new(net.ListenConfig).ListenPacket(ctx, "unixgram", r.path)
	if err != nil {
		return fmt.Errorf("open the socket: %w", err)
	}
	r.socket, _ = conn.(*net.UnixConn)
	return nil
}

// environ is what the command needs to say that it is ready.
func (r *readiness) environ() []string {
	if r.path == "" {
		return nil
	}
	return []string{"NOTIFY_SOCKET=" + r.path}
}

// hear reads messages until the socket is closed: lines NAME=value, of which READY=1 counts (see sd_notify(3)).
func (r *readiness) hear() {
	message := make([]byte, 4<<10)
	for {
		n, err := r.socket.Read(message)
		if err != nil {
			return
		}
		for line := range bytes.SplitSeq(message[:n], []byte("\n")) {
			if string(line) == "READY=1" {
				r.set()
			}
		}
	}
}

// started is called when the command runs, and begins its delay. The returned channel is closed when it counts as
// running, at once when there is neither a delay nor a message to wait for.
func (r *readiness) started() (ready <-chan struct{}, stop func()) {
	if r.rule.Delay <= 0 {
		if !r.rule.Notify {
			r.set()
		}
		return r.ready, func() {}
	}
	timer := time.AfterFunc(r.rule.Delay, r.set)
	return r.ready, func() { timer.Stop() }
}

func (r *readiness) set() { r.once.Do(func() { close(r.ready) }) }

func (r *readiness) close() {
	if r.socket != nil {
		_ = r.socket.Close() // it was only read
	}
	r.heard.Wait()
	if r.dir != "" {
		_ = os.RemoveAll(r.dir) // a left-over directory among the temporary ones does no harm
	}
}
