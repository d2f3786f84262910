package status

import (
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"golang.org/x/sync/singleflight"

	"github.com/shardctl/shardctl/internal/web"
	"github.com/shardctl/shardctl/pkg/api"
)

const (
	// metricsAge is how old what /metrics answers may be: it is made at most once in it.
	metricsAge = time.Second
	// maxScrapes is how many are sent the metrics at once, and maxScrapesOfClient of them to one client. Those who read
	// slowly are among them: they keep a connection, and little else.
	maxScrapes         = 64
	maxScrapesOfClient = 8
)

// exposition is what /metrics answers, in the text format of Prometheus. It is made once for all who ask in a second,
// and compressed once. Use newExposition.
type exposition struct {
	from   prometheus.Gatherer
	log    logr.Logger
	flight singleflight.Group

	mu   sync.Mutex
	last *answer
	at   time.Time // when making the last one began
}

func newExposition(from prometheus.Gatherer, log logr.Logger) *exposition {
	return &exposition{from: from, log: log}
}

// now is the newest one, which is no older than metricsAge.
func (x *exposition) now() *answer {
	if last := x.fresh(); last != nil {
		return last
	}
	v, _, _ := x.flight.Do("", func() (any, error) {
		if last := x.fresh(); last != nil { // others have waited for it
			return last, nil
		}
		began := time.Now()
		made := makeAnswer(x.write)
		x.mu.Lock()
		defer x.mu.Unlock()
		x.last, x.at = made, began
		return made, nil
	})
	return v.(*answer) //nolint:forcetypeassert // as returned above
}

func (x *exposition) fresh() *answer {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.last == nil || time.Since(x.at) >= metricsAge {
		return nil
	}
	return x.last
}

var metricsFormat = expfmt.NewFormat(expfmt.TypeTextPlain)

// write writes all metrics that can be gathered.
func (x *exposition) write(b *body) *web.Error {
	families, err := x.from.Gather()
	if err != nil {
		x.log.Error(err, "Some metrics could not be gathered")
		if len(families) == 0 {
			return internal(err)
		}
	}
	encoder := expfmt.NewEncoder(b.w, metricsFormat)
	for _, family := range families {
		if b.err == nil {
			b.err = encoder.Encode(family)
		}
	}
	return nil
}

// metrics answers with the metrics.
func (s *server) metrics(x *exposition) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) *web.Error {
		leave, bad := enter(s.shares.of(r).scraping, r, api.ReasonTooManyRequests, "requests for metrics are answered")
		if bad != nil {
			return bad
		}
		defer leave()
		return x.now().send(w, r, string(metricsFormat))
	}
}
