package status

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestQuietStreamsSayThatTheyLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		watching(t, New(Config{Source: boardWith(sample(1))}), "/api/v1/groups?watch=true", "", func(out *tape) {
			out.take()
			time.Sleep(keepAlive - time.Millisecond)
			synctest.Wait()
			if text := out.take(); text != "" {
				t.Errorf("too early: %q", text)
			}
			time.Sleep(time.Millisecond)
			synctest.Wait()
			if text := out.take(); !strings.HasPrefix(text, ":") {
				t.Errorf("no comment: %q", text)
			}
		})
	})
}

// lapsing is a connection whose writes fail when their deadline has passed, as those of the network do.
type lapsing struct {
	*pipe
	mu sync.Mutex
	at time.Time
}

func (l *lapsing) SetWriteDeadline(at time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.at = at
	return nil
}

func (l *lapsing) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.at.IsZero() && time.Now().After(l.at) {
		return 0, errors.New("the deadline is over")
	}
	return l.pipe.Write(p)
}

// TestQuietWatchesStay holds that a watch lives on while nothing changes that it shows, for longer than the time that
// one chunk may take.
func TestQuietWatchesStay(t *testing.T) {
	for _, path := range []string{
		"/api/v1/tasks?watch=true", "/api/v1/status?watch=true",
		"/api/v1/instances?watch=true",
	} {
		for _, coding := range []string{"", "gzip"} {
			synctest.Test(t, func(t *testing.T) {
				board := boardWith(sample(10))
				ctx, cancel := context.WithCancel(t.Context())
				out, done := &lapsing{pipe: newPipe()}, make(chan struct{})
				r := httptest.NewRequestWithContext(ctx, http.MethodGet, path, http.NoBody)
				r.Header.Set("Accept-Encoding", coding)
				go func() {
					defer close(done)
					New(Config{Source: board}).ServeHTTP(out, r)
				}()
				for range 100 {
					time.Sleep(writeTimeout / 20)
					same := *board.Snapshot()
					board.Publish(&same)
				}
				synctest.Wait()
				select {
				case <-done:
					t.Errorf("%s %s: it ended", path, coding)
				default:
				}
				cancel()
				<-done
			})
		}
	}
}

// Who may not read any more is sent nothing more, on streams that were opened before as well.
func TestStreamsEndWithTheRightToReadThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var revoked atomic.Bool
		read := New(Config{Source: boardWith(sample(1))})
		h := granting(read, Access{Allowed: func() bool { return !revoked.Load() }})
		for _, list := range []string{"status", "tasks", "events", "locks"} {
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				h.ServeHTTP(newTape(), httptest.NewRequestWithContext(
					t.Context(), http.MethodGet, "/api/v1/"+list+"?watch=true", http.NoBody,
				))
			}()
			time.Sleep(time.Minute)
			synctest.Wait()
			select {
			case <-ended:
				t.Errorf("%s ended early", list)
			default:
			}
			revoked.Store(true)
			time.Sleep(allowedPace)
			synctest.Wait()
			select {
			case <-ended:
			default:
				t.Errorf("%s goes on", list)
			}
			revoked.Store(false)
		}
	})
}
