//go:build linux

package chaos

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/shardctl/shardctl/test/e2e/history"
	"github.com/shardctl/shardctl/test/testprocess"
)

// endpoint is the service that http tasks call. It works for a key as long as its last request allowed. It refuses a
// token smaller than the largest it has seen, as every good one does. What it would complain of are two owners at once.
type endpoint struct {
	*httptest.Server

	stalls *testprocess.Stalls

	mu     sync.Mutex
	stood  []stood // at each request of the last lease
	grants map[string]grant
	starts int
	late   int // calls with an old token
	faults []string
}

// grant is what the HTTP endpoint last learned of a key.
type grant struct {
	token    int64
	instance string
	until    history.Instant
	late     time.Duration // by how much the request may have been read later than it allowed for
}

// stood is for how long the machine stood still until then.
type stood struct {
	at    history.Instant
	still time.Duration
}

func newEndpoint(tb testing.TB) *endpoint {
	tb.Helper()
	f := &endpoint{grants: map[string]grant{}, stalls: testprocess.NewStalls()}
	tb.Cleanup(f.stalls.Close)
	f.Server = httptest.NewServer(f)
	return f
}

// ServeHTTP implements http.Handler.
func (f *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	token, err := strconv.ParseInt(r.Header.Get("Shardctl-Fencing-Token"), 10, 64)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	seconds, _ := strconv.ParseFloat(r.Header.Get("Shardctl-Valid-For"), 64) // a stop has none
	g := grant{
		token: token, instance: r.Header.Get("Shardctl-Instance"),
		until: history.Now().Add(time.Duration(seconds * float64(time.Second))),
	}
	w.WriteHeader(f.take(r.Header.Get("Shardctl-Key"), r.Header.Get("Shardctl-Event"), g))
}

func (f *endpoint) take(key, event string, g grant) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	now, last := history.Now(), f.grants[key]
	g.late = f.stoodStill(now)
	if g.token < last.token {
		f.late++
		return http.StatusConflict
	}
	if event == "stop" {
		last.until = min(last.until, now)
		last.token = g.token
		f.grants[key] = last
		return http.StatusNoContent
	}
	if event == "start" {
		f.starts++
	}
	if g.token > last.token && g.instance != last.instance && now < last.until.Add(-last.late) {
		f.faults = append(f.faults, fmt.Sprintf("%s: %s for %s with token %d came while the HTTP endpoint might "+
			"work for %s with token %d for %v more",
			key, event, g.instance, g.token, last.instance, last.token, last.until.Sub(now)))
	}
	f.grants[key] = g
	return http.StatusNoContent
}

// stoodStill is for how long the machine stood still in the last lease. A request that was sent in time may have waited
// so long to be read, which no sender can know.
func (f *endpoint) stoodStill(now history.Instant) time.Duration {
	f.stood = append(f.stood, stood{now, f.stalls.Stood()})
	f.stood = slices.DeleteFunc(f.stood, func(s stood) bool { return s.at.Add(Lease) < now })
	return f.stood[len(f.stood)-1].still - f.stood[0].still
}

// missing are those of the keys that it is not asked to work for now.
func (f *endpoint) missing(keys []string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var missing []string
	for _, key := range keys {
		if f.grants[key].until <= history.Now() {
			missing = append(missing, key)
		}
	}
	return missing
}

// seen is what it has to say at the end.
func (f *endpoint) seen() (starts, late int, faults []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.starts, f.late, f.faults
}
