package replica

import (
	"context"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/operate"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/elect/cluster"
	"github.com/shardctl/shardctl/pkg/elect/record"
)

// tendEvery is how often a replica looks at what operators asked for and time ends. The first look comes that long
// after the start: where all replicas were down for long, those that come back are seen before.
const tendEvery = 5 * time.Minute

// keepTending has what operators asked for forgotten once it is out of date, until ctx ends. The store is asked only
// when something seems to be due by what is known here; what is done goes by the store's clock.
func keepTending(
	ctx context.Context, view func() *cluster.View, tend func(context.Context, []elect.Member) error, log logr.Logger,
) {
	due := time.NewTicker(tendEvery)
	defer due.Stop()
	for {
		select {
		case <-due.C:
		case <-ctx.Done():
			return
		}
		v := view()
		live := taking(v)
		if !v.Loaded || v.Stale || operate.Tend(v.Overrides, live, time.Now().UnixMilli()).Empty() {
			continue
		}
		if err := tend(ctx, live); err != nil && ctx.Err() == nil {
			log.Error(err, "Cannot look after what operators asked for; trying again later")
		}
	}
}

// endAgain is how long after one look the next one comes at what has ended by itself.
const endAgain = time.Second

// keepEnding has what operators asked for a while taken back when its time is over, until ctx ends. By this machine's
// clock it is only known when to look.
func keepEnding(
	ctx context.Context, c interface {
		View() *cluster.View
		Changed() <-chan struct{}
	}, end func(context.Context) error, log logr.Logger,
) {
	var last time.Time
	for {
		changed := c.Changed()
		var due <-chan time.Time
		if at := nextEnd(c.View()); !at.IsZero() {
			due = time.After(max(time.Until(at), time.Until(last.Add(endAgain))))
		}
		select {
		case <-changed:
			continue
		case <-ctx.Done():
			return
		case <-due:
		}
		if err := end(ctx); err != nil && ctx.Err() == nil {
			log.Error(err, "Cannot take back what operators asked for until now; trying again")
		}
		last = time.Now()
	}
}

// nextEnd is when the next override ends by itself, by this machine's clock; zero: none does, or it cannot be known.
func nextEnd(v *cluster.View) time.Time {
	var next int64
	for _, o := range v.Overrides {
		if !o.Kind.Once() && o.Until > 0 && (next == 0 || o.Until < next) {
			next = o.Until
		}
	}
	if next == 0 || !v.Loaded || v.Stale {
		return time.Time{}
	}
	return time.UnixMilli(next).Add(v.Ahead)
}

// taking are the instances that take part.
func taking(v *cluster.View) []elect.Member {
	var list []elect.Member
	for _, s := range v.Sessions {
		if s.Known && s.State != record.Dead {
			list = append(list, s.Member)
		}
	}
	return list
}
