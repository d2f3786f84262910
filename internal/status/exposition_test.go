package status

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/shardctl/shardctl/internal/metrics"
	"github.com/shardctl/shardctl/pkg/api"
)

// gathering counts how often metrics are gathered.
type gathering struct {
	prometheus.Gatherer
	n    atomic.Int64
	fail error
}

func (g *gathering) Gather() ([]*dto.MetricFamily, error) {
	g.n.Add(1)
	if g.fail != nil {
		return nil, g.fail
	}
	return g.Gatherer.Gather()
}

// However many ask, metrics are made once a second, and all get them.
func TestMetricsAreMadeOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := metrics.New(true)
		for i := range 5000 {
			m.TaskRestart("topics", fmt.Sprintf("topic-%05d", i))
		}
		registry := prometheus.NewRegistry()
		registry.MustRegister(m)
		g := &gathering{Gatherer: registry}
		h := New(Config{Source: boardWith(sample(3)), Registry: g})
		var asked sync.WaitGroup
		for second := range 3 {
			for i := range maxScrapes - 1 {
				asked.Go(func() {
					w := askedFrom(t, h, fmt.Sprintf("192.0.2.%d", i), "/metrics")
					if w.Code != 200 || !strings.Contains(w.Body.String(), "topic-04999") {
						t.Errorf("%d, %d bytes", w.Code, w.Body.Len())
					}
				})
			}
			asked.Wait()
			if n := g.n.Load(); n != int64(second+1) {
				t.Errorf("gathered %d times within %d s", n, second+1)
			}
			m.TaskRestart("topics", fmt.Sprintf("new-%d", second))
			time.Sleep(metricsAge)
			text := askedFrom(t, h, "192.0.2.1", "/metrics").Body.String()
			if !strings.Contains(text, fmt.Sprintf("new-%d", second)) {
				t.Errorf("after a second the metrics are still the old ones")
			}
		}
		if got := get(t, h, "/metrics").Header().Get("Content-Type"); got != "text/plain; version=0.0.4; charset=utf-8" {
			t.Errorf("Content-Type %s", got)
		}
		g.fail = errors.New("no metrics")
		time.Sleep(metricsAge)
		if w := get(t, h, "/metrics"); w.Code != 500 {
			t.Errorf("nothing can be gathered: %d", w.Code)
		}
	})
}

// unread is a response whose reader does not read.
type unread struct {
	*httptest.ResponseRecorder
	may chan struct{}
}

func (u unread) Write(p []byte) (int, error) {
	<-u.may
	return len(p), nil
}

// Who does not read what /metrics answers keeps a place that others have as well, and no text of its own.
func TestSlowReadersOfMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := metrics.New(true)
		for i := range 20_000 {
			m.TaskRestart("topics", fmt.Sprintf("topic-%05d", i))
		}
		registry := prometheus.NewRegistry()
		registry.MustRegister(m)
		h := New(Config{Source: boardWith(sample(3)), Registry: registry})
		size := get(t, h, "/metrics").Body.Len()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		may := make(chan struct{})
		var slow sync.WaitGroup
		for i := range maxScrapes {
			slow.Go(func() {
				r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody)
				r.RemoteAddr = fmt.Sprintf("192.0.2.%d:1", i/maxScrapesOfClient)
				h.ServeHTTP(unread{httptest.NewRecorder(), may}, r)
			})
		}
		synctest.Wait()
		runtime.ReadMemStats(&after)
		if taken := int(after.TotalAlloc - before.TotalAlloc); taken > maxScrapes*size/8 {
			t.Errorf("%d slow readers of %d KiB took %d KiB", maxScrapes, size>>10, taken>>10)
		}
		expectFull(t, askedFrom(t, h, "192.0.2.0", "/metrics"), 503, api.ReasonTooManyRequests,
			"64 requests for metrics are answered already")
		for address, path := range map[string]string{"127.0.0.1": "/metrics", "192.0.2.1": "/api/v1/status"} {
			if w := askedFrom(t, h, address, path); w.Code != 200 {
				t.Errorf("%s beside them: %d", path, w.Code)
			}
		}
		operated := granting(h, Access{Changes: ChangesOpen, Trusted: true})
		if w := askedFrom(t, operated, "192.0.2.0", "/metrics"); w.Code != 200 {
			t.Errorf("metrics at admin.listen: %d", w.Code)
		}
		close(may)
		slow.Wait()
	})
}

// Who asks while one is made that takes longer than it may be old takes that one, and does not have another made.
func TestWhoWaitsForMetricsTakesThem(t *testing.T) {
	g := &gathering{Gatherer: prometheus.NewRegistry()}
	x := exposition{log: logr.Discard(), from: g}
	x.now()
	for _, tt := range []struct {
		after time.Duration // the last one began
		made  int64
	}{{-time.Second, 1}, {metricsAge - 1, 1}, {metricsAge, 2}} {
		x.askedAt(x.at.Add(tt.after))
		if n := g.n.Load(); n != tt.made {
			t.Errorf("asked %v after it began: %d made, want %d", tt.after, n, tt.made)
		}
	}
}
