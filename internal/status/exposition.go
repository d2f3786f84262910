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

// now is the newest one, which is no older than metricsAge. Who comes while it is made waits for it.
func (x *exposition) now() *answer {
	x.mu.Lock()
	defer x.mu.Unlock()
	if began := time.Now(); x.last == nil || began.Sub(x.at) >= metricsAge {
		x.last, x.at = makeAnswer(x.write), began
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
