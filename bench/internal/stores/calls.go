//go:build linux

package stores

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/shardctl/shardctl/bench/internal/lab"
	"github.com/shardctl/shardctl/internal/sleep"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/test/e2e/history"
)

// floor is what a store takes for the steps that everything is made of, one after the other, with no other load.
type floor struct {
	write, writeP99 time.Duration // a compare-and-set, until it is acknowledged as durable
	cost            cost          // processor time of one
	notice          time.Duration // from sending a write to its notification at another client, p50
}

const callTimeout = lab.DefaultLease / 6

// measureFloor measures with two clients: one that writes, and then another that is notified.
func measureFloor(ctx context.Context, b *lab.Lab, s *server, uri string) (f floor, err error) {
	config := store.Config{URI: uri, Timeout: callTimeout}
	db, err := store.Open(ctx, config)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, db.Close(context.WithoutCancel(ctx))) }()
	w := &writer{db: db}
	if err := f.measureWrites(ctx, b, s, w); err != nil {
		return f, err
	}
	reader, err := store.Open(ctx, config)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, reader.Close(context.WithoutCancel(ctx))) }()
	f.notice, err = measureNotices(ctx, b, w, reader)
	return f, err
}

// measureWrites writes one document again and again, at once after each answer.
func (f *floor) measureWrites(ctx context.Context, b *lab.Lab, s *server, w *writer) error {
	n := b.Full(1_000, 300)
	for range n / 4 { // connections and caches warm up
		if _, err := w.write(ctx); err != nil {
			return err
		}
	}
	m, err := s.meter()
	if err != nil {
		return err
	}
	var took []time.Duration
	for range n {
		d, err := w.write(ctx)
		if err != nil {
			return err
		}
		took = append(took, d)
	}
	spent, err := m.spent()
	f.cost = spent.over(float64(n))
	f.write, f.writeP99 = history.Percentile(took, 50), history.Percentile(took, 99)
	return err
}

// writer writes one document.
type writer struct {
	db   store.Store
	rev  int64
	sent time.Time // the last write
}

// noted is the document: an operator's change, of which every watcher is notified.
const noted = "pause/bench/a"

func (w *writer) write(ctx context.Context) (time.Duration, error) {
	next := w.rev + 1
	w.sent = time.Now()
	outcomes, err := w.db.Apply(ctx, store.Change{IfRev: w.rev, Doc: store.Doc{
		Kind: store.KindOverride, ID: noted, Rev: next, WriterID: store.WriterID{Session: "bench", Seq: next},
	}})
	took := time.Since(w.sent)
	if err != nil {
		return 0, err
	}
	if outcomes[0].Status != store.Applied {
		return 0, fmt.Errorf("write %d is not applied: %w", next, outcomes[0].Err)
	}
	w.rev = next
	return took, nil
}

const (
	noticeLimit = 20 * time.Second
	// restLeast is enough for the second notification of a write to arrive before the next write.
	restLeast = 50 * time.Millisecond
	// restSpread is the longest interval at which a store here is polled: writes come at any moment within it.
	restSpread = 100 * time.Millisecond
)

// measureNotices writes at any moment, and waits for each notification. The median is returned.
func measureNotices(ctx context.Context, b *lab.Lab, w *writer, reader store.Store) (time.Duration, error) {
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	notices, err := reader.Watch(watching, store.Interest{Kinds: []store.Kind{store.KindOverride}})
	if err != nil {
		return 0, fmt.Errorf("watch: %w", err)
	}
	var took []time.Duration
	n := b.Full(100, 30)
	for range n {
		//nolint:gosec // a moment, not a secret
		if err := sleep.For(ctx, restLeast+rand.N(restSpread)); err != nil {
			return 0, err
		}
		if err := drain(notices); err != nil {
			return 0, err
		}
		if _, err := w.write(ctx); err != nil {
			return 0, err
		}
		noticed, err := awaitNotice(ctx, notices, w.rev)
		if err != nil {
			return 0, err
		}
		if noticed {
			took = append(took, time.Since(w.sent))
		}
	}
	if len(took) < n/2 {
		return 0, fmt.Errorf("%d of %d writes were noticed", len(took), n)
	}
	return history.Percentile(took, 50), nil
}

var errWatchEnded = errors.New("the watch ended")

// drain takes what is waiting: more about the writes before.
func drain(notices <-chan store.Notification) error {
	for {
		select {
		case _, open := <-notices:
			if !open {
				return errWatchEnded
			}
		default:
			return nil
		}
	}
}

// awaitNotice waits until the write of a revision is noticed. It is not where a Resync comes instead, which names
// none.
func awaitNotice(ctx context.Context, notices <-chan store.Notification, rev int64) (noticed bool, err error) {
	limit := time.NewTimer(noticeLimit)
	defer limit.Stop()
	for {
		select {
		case n, open := <-notices:
			switch {
			case !open:
				return false, errWatchEnded
			case n.Resync:
				return false, nil
			case n.ID == noted && (n.Doc == nil || n.Doc.Rev >= rev):
				return true, nil
			}
		case <-limit.C:
			return false, fmt.Errorf("no notification within %v", noticeLimit)
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
}
