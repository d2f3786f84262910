package subscribe

import (
	"context"
	"math"
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

// watchLag says how far the subscription is behind, until ctx ends. The broker is asked also while it gives nothing: a
// partition may be silent while messages pile up in it. A lag that it does not tell is not known.
func (s *run) watchLag(ctx context.Context, sub Subscription) {
	lagging, ok := sub.(Lagging)
	if !ok {
		return
	}
	_ = sleep.For(ctx, lagFirst)
	for ctx.Err() == nil {
		asking, cancel := context.WithTimeout(ctx, lagTimeout)
		lag, err := lagging.Lag(asking)
		cancel()
		if ctx.Err() != nil {
			return
		}
		now := lagOf(lag)
		if err != nil {
			now = elect.Lag{}
			s.env.Log.V(1).Info("The lag is not known", "reason", err.Error())
		}
		s.behind(now)
		_ = sleep.For(ctx, lagEvery)
	}
}

// behind says how far the subscription is behind, where that is news.
func (s *run) behind(now elect.Lag) {
	if noticeable(s.lag, now) {
		s.lag = now
		s.env.Status.Lag(now)
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
