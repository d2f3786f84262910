package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shardctl/shardctl/internal/subscribe"
)

// refreshEvery is how often the brokers are asked what the topic is. Added partitions are taken up within it.
const refreshEvery = 30 * time.Second

// absentEvery is how often partitions are asked for that were absent when the subscription opened.
const absentEvery = 2 * time.Second

// renewEvery is how often positions are kept from expiring.
const renewEvery = 12 * time.Hour

// watcher sees what becomes of the topic while it is consumed.
type watcher struct {
	*subscription
	is      topic
	all     bool // all partitions are consumed, those that are added too
	renewed time.Time
}

func (w *watcher) run(ctx context.Context) {
	tick := time.NewTicker(w.refresh)
	defer tick.Stop()
	w.renewed = time.Now()
	for {
		var again <-chan time.Time
		if len(*w.absent.Load()) > 0 {
			again = time.After(min(w.refresh/2, absentEvery)) // before the tick, or it would never be
		}
		select {
		case <-ctx.Done():
			return
		case <-again:
			w.join(ctx)
			continue
		case <-tick.C:
		}
		w.look(ctx)
		w.renew(ctx)
		w.health.forget(2*w.refresh + openWithin)
	}
}

// look compares the topic with what it was. One that is gone, or another of its name, ends the subscription.
func (w *watcher) look(ctx context.Context) {
	ctx, cancel := context.WithTimeoutCause(ctx, openWithin, errNoAnswer)
	defer cancel()
	now, err := describeTopic(ctx, w.client, w.topic)
	switch {
	case errors.Is(err, errNoTopic):
		w.end(w.explain(fmt.Errorf("it had %d partitions: %w", w.is.partitions, err)))
	case err != nil:
		w.report(ctx, err)
	case now.partitions < w.is.partitions:
		w.end(w.explain(fmt.Errorf("it had %d partitions and now has %d: it was deleted and created again",
			w.is.partitions, now.partitions)))
	case now.id != w.is.id:
		w.end(w.explain(errors.New("it was deleted and created again")))
	case now.partitions > w.is.partitions && w.all:
		w.report(ctx, w.grow(ctx, now))
	default:
		w.report(ctx, now.leaderless(w.places.partitions()).report())
	}
}

// join begins with partitions that were absent, once they are there.
func (w *watcher) join(ctx context.Context) {
	ctx, cancel := context.WithTimeoutCause(ctx, openWithin, errNoAnswer)
	defer cancel()
	begin, absent, err := w.begin(ctx, w.before, w.absent.Load().partitions())
	switch {
	case w.ended.Err() != nil:
	case errors.Is(err, subscribe.ErrStop):
		w.end(w.explain(err))
	case err != nil:
		w.health.set("absent", w.explain(because(ctx, w.health, err)))
	default:
		w.places.add(begin)
		w.consume(begin)
		w.wait(absent)
	}
}

// report says what is wrong, or that nothing is, unless the subscription is being closed.
func (w *watcher) report(ctx context.Context, err error) {
	if w.ended.Err() != nil {
		return
	}
	w.health.set("topic", w.explain(because(ctx, w.health, err)))
}

// grow takes up added partitions from their beginning. Their positions are kept first.
func (w *watcher) grow(ctx context.Context, now topic) error {
	added := upTo(now.partitions)[w.is.partitions:]
	first, err := listOffsets(ctx, w.client, w.topic, added, atFirst, 0)
	if err != nil {
		return err
	}
	begin := map[int32]mark{}
	for _, p := range added {
		begin[p] = mark{Offset: first[p], Epoch: -1}
		w.session.Log.Info("A partition was added, beginning", "position", positionOf(w.topic, p, first[p]))
	}
	w.places.add(begin)
	w.consume(begin)
	w.is = now
	return nil
}

func (w *watcher) renew(ctx context.Context) {
	if time.Since(w.renewed) < renewEvery || ctx.Err() != nil {
		return
	}
	w.renewed = time.Now()
	if err := w.kept.renew(ctx); err != nil {
		w.session.Log.Error(err, "Positions could not be kept from expiring, trying again later")
	}
}
