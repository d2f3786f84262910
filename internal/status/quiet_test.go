package status

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

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
