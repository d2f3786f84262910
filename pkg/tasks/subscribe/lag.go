package subscribe

import (
	"context"
	"math"
	"sync/atomic"
	"time"

	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/internal/sleep"
)

const (
	// lagEvery is how often a broker is asked for the lag, and lagTimeout how long it may take to answer. It is asked
	// after lagFirst, as the first deliveries of all that moved at once go before.
	lagFirst   = time.Second
	lagEvery   = 10 * time.Second
	lagTimeout = 5 * time.Second
)

// quiet is since when a broker has had nothing to give: it is asked for messages, and all that it gave before is
// acknowledged. The zero value is that it has something. One goroutine sets it, others may ask.
type quiet struct{ since atomic.Int64 } // Unix ns

func (q *quiet) set(is bool) {
	switch {
	case !is:
		q.since.Store(0)
	case q.since.Load() == 0:
		q.since.Store(time.Now().UnixNano())
	}
}

// lasts says whether it has been so for at least d.
func (q *quiet) lasts(d time.Duration) bool {
	since := q.since.Load()
	return since > 0 && time.Since(time.Unix(0, since)) >= d
}

// watchLag says how far the subscription is behind, until ctx ends.
func (s *run) watchLag(ctx context.Context, sub Subscription) {
	lagging, ok := sub.(Lagging)
	if !ok {
		return
	}
	var said elect.Lag
	_ = sleep.For(ctx, lagFirst)
	for ctx.Err() == nil {
		lag, err := Lag{}, error(nil)
		if !s.quiet.lasts(lagEvery / 2) { // else nothing is behind, and the broker need not be asked
			asking, cancel := context.WithTimeout(ctx, lagTimeout)
			lag, err = lagging.Lag(asking)
			cancel()
		}
		if err != nil && ctx.Err() == nil {
			s.env.Log.V(1).Info("The lag is not known", "reason", err.Error())
		}
		if now := lagOf(lag); err == nil && noticeable(said, now) {
			said = now
			s.env.Status.Lag(now)
		}
		_ = sleep.For(ctx, lagEvery)
	}
}

// lagOf is a lag as statuses have it.
func lagOf(lag Lag) elect.Lag {
	seconds := int64(-1)
	if lag.Seconds >= 0 {
		seconds = int64(math.Ceil(lag.Seconds))
	}
	return elect.Lag{Known: true, Messages: max(-1, lag.Messages), Seconds: seconds}
}

// noticeable says whether a lag is worth a write: it began or ended, or changed by half.
func noticeable(said, now elect.Lag) bool {
	far := func(a, b int64) bool {
		return a != b && (a <= 0 || b <= 0 || 2*a > 3*b || 2*b > 3*a)
	}
	return said.Known != now.Known || far(said.Messages, now.Messages) ||
		far(said.Seconds/lagSteps, now.Seconds/lagSteps)
}

// lagSteps are the seconds below which two ages count as the same.
const lagSteps = 10
