package guard

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/shardctl/shardctl/internal/clock"
	"github.com/shardctl/shardctl/internal/electing"
	"github.com/shardctl/shardctl/internal/guard/wire"
)

const (
	markPause    = 20 * time.Millisecond // before the second attempt; then doubled
	markPauseMax = 500 * time.Millisecond
	preparePause = time.Second // before the second attempt to prepare; then doubled
	// preparePauseMax is long: many guards that cannot reach a busy store must not keep it busy.
	preparePauseMax = time.Minute
)

// marking writes the worker's sessions down as dead, over a connection that is ready beforehand.
type marking struct {
	core   *core
	cfg    Config
	log    *journal
	first  sync.Once
	opened chan struct{} // closed when the first session is opened: the worker reaches the store
	cancel context.CancelFunc
	group  sync.WaitGroup
}

func newMarking(x *executor, cfg Config) *marking {
	return &marking{core: x.core, cfg: cfg, log: x.journal, opened: make(chan struct{})}
}

// sessionOpening takes that the worker is about to open a session.
func (k *marking) sessionOpening() { k.first.Do(func() { close(k.opened) }) }

// prepare calls Prepare once the worker opens its first session, until it succeeds or ready is called.
func (k *marking) prepare(ctx context.Context) {
	ctx, k.cancel = context.WithCancel(context.WithoutCancel(ctx))
	if k.cfg.Prepare == nil {
		return
	}
	k.group.Go(func() {
		select {
		case <-k.opened:
		case <-ctx.Done():
			return
		}
		for pause := preparePause; ; pause = min(2*pause, preparePauseMax) {
			err := k.cfg.Prepare(ctx)
			if err == nil || ctx.Err() != nil {
				return
			}
			text := "Could not prepare for the worker's death"
			k.log.add(note{level: levelDebug, text: text, values: []any{"error", err.Error()}})
			if clock.Sleep(ctx, pause/2+rand.N(pause)) != nil { //nolint:gosec // it spreads load
				return
			}
		}
	})
}

// ready ends what prepare began.
func (k *marking) ready() {
	k.cancel()
	k.group.Wait()
}

func (k *marking) once(ctx context.Context, dead []electing.Session, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return k.cfg.MarkDead(ctx, dead)
}

// mark writes down as dead every session that the worker announced and did not close. It tries again and again until it
// succeeds or the lease has run out, after which it makes no difference. A signal after a hard stop ends it.
func (k *marking) mark(ctx context.Context, nothingLeft bool, signals <-chan os.Signal) error {
	k.ready()
	if len(k.core.leases.sessions) == 0 || k.cfg.MarkDead == nil {
		return nil
	}
	if !nothingLeft {
		return errors.New("the sessions are not marked dead: something of the tasks is alive. Others get their keys once " +
			"the lease is over")
	}
	var last error
	for pause := markPause; ; pause = min(2*pause, markPauseMax) {
		now := wire.Now()
		left := holderLeft(k.core.shutdown.markBy(), now)
		if left <= 0 {
			return fmt.Errorf("mark the sessions dead: the lease is over: %w", last)
		}
		last = k.once(ctx, k.core.leases.dead(now), min(left, max(k.core.shutdown.lease/3, time.Second)))
		if last == nil {
			k.log.add(note{text: "Marked the worker's sessions dead"})
			return nil
		}
		if k.interrupted(signals, min(pause, left)) {
			return fmt.Errorf("mark the sessions dead: %w", last)
		}
	}
}

// interrupted waits, and says whether a signal ends the marking.
func (k *marking) interrupted(signals <-chan os.Signal, pause time.Duration) bool {
	select {
	case <-time.After(pause):
		return false
	case s := <-signals:
		return k.core.shutdown.interrupts(s)
	}
}
