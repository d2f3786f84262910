package status

import (
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"golang.org/x/sync/singleflight"

	"github.com/shardctl/shardctl/internal/web"
)

// metricsAge is how old what /metrics answers may be: it is made at most once in it.
const metricsAge = time.Second

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
