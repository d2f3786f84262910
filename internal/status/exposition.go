package status

import (
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/shardctl/shardctl/internal/web"
)

// metricsAge is how old what /metrics answers may be: it is made at most once in it.
const metricsAge = time.Second

// exposition is what /metrics answers, in the text format of Prometheus. It is made once for all who ask in a second,
// and compressed once.
type exposition struct {
	from prometheus.Gatherer
	log  logr.Logger

	mu   sync.Mutex
	last *answer
	at   time.Time // when making the last one began
}

// now returns the newest one, which began less than metricsAge before it was asked for.
func (x *exposition) now() *answer { return x.askedAt(time.Now()) }

// askedAt returns it for a request that came at a moment. All that come while one is made share it, however long that takes.
func (x *exposition) askedAt(asked time.Time) *answer {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.last == nil || asked.Sub(x.at) >= metricsAge {
		x.at = time.Now()
		x.last = makeAnswer(x.write)
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
