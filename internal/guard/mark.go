package guard

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/go-logr/logr"
)

const (
	markPause    = 20 * time.Millisecond // before the second attempt; then doubled
	markPauseMax = 500 * time.Millisecond
	preparePause = time.Second // before another attempt to prepare
)

// startPreparing calls Prepare once the worker has said hello.
func (g *keeper) startPreparing(ctx context.Context) {
	ctx, g.stopPrepare = context.WithCancel(context.WithoutCancel(ctx))
	if g.cfg.Prepare == nil {
		return
	}
	g.preparing.Go(func() {
		select {
		case <-g.helloed:
		case <-ctx.Done():
			return
		}
		for {
			err := g.cfg.Prepare(ctx)
			if err == nil || ctx.Err() != nil {
				return
			}
			g.note(func(log logr.Logger) { log.V(1).Info("Could not prepare for the worker's death", "error", err.Error()) })
			select {
			case <-time.After(preparePause):
			case <-ctx.Done():
				return
			}
		}
	})
}

// mark writes down as dead every session that the worker told of and did not close, again and again until it succeeds or
// the lease has run out, after which it makes no difference. A signal after a hard stop ends it.
func (g *keeper) mark(ctx context.Context, signals <-chan os.Signal) error {
	g.stopPrepare()
	g.preparing.Wait()
	if len(g.sessions) == 0 || g.cfg.MarkDead == nil {
		return nil
	}
	if !g.nothingLeft() {
		return errors.New("mark the sessions dead: something of the tasks is still alive, their keys stay held")
	}
	var last error
	for pause := markPause; ; pause = min(2*pause, markPauseMax) {
		left := holderLeft(g.worker.died.Add(g.lease), Now())
		if left <= 0 {
			return fmt.Errorf("mark the sessions dead: the lease is over: %w", last)
		}
		if last = g.markOnce(ctx, min(left, max(g.lease/3, time.Second))); last == nil {
			g.note(func(log logr.Logger) { log.Info("Marked the worker's sessions dead") })
			return nil
		}
		select {
		case <-time.After(min(pause, left)):
		case s := <-signals:
			if g.hard != 0 && s != syscall.SIGHUP {
				return fmt.Errorf("mark the sessions dead: %w", last)
			}
			g.hard = syscall.SIGTERM // the next one ends it
		}
	}
}

func (g *keeper) markOnce(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	now := Now()
	dead := make([]Session, 0, len(g.sessions))
	for uuid, l := range g.sessions {
		dead = append(dead, l.report(uuid, now))
	}
	return g.cfg.MarkDead(ctx, dead)
}

// nothingLeft says whether every process but the guard is gone. A subreaper without children has nothing below it either.
func (g *keeper) nothingLeft() bool {
	return g.worker.reaped && g.eof && g.spawning == 0 && g.childless && (canSurvey || len(g.kids) == 0)
}
