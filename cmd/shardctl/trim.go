package main

import (
	"context"
	"runtime/debug"
	"slices"
	"time"

	"github.com/shardctl/shardctl/internal/status"
	"github.com/shardctl/shardctl/pkg/api"
)

// trimRest is how long nothing starts any more before memory is given back: the last statuses are written meanwhile.
const trimRest = 10 * time.Second

// trim gives memory back to the system once after the start, and once after each reload. Reading a long list, and
// starting all of its tasks, takes far more than keeping them. Go itself gives it back too slowly for a replica that
// then rests.
func (w *worker) trim(ctx context.Context) {
	board := w.replica.Board()
	for {
		for changed := board.Changed(); !settled(board.Snapshot()); changed = board.Changed() {
			if !pause(ctx, changed) {
				return
			}
		}
		if !pause(ctx, time.After(trimRest)) {
			return
		}
		if !settled(board.Snapshot()) {
			continue
		}
		debug.FreeOSMemory()
		if !pause(ctx, w.applied) {
			return
		}
	}
}

// settled says whether the replica takes part, and no task is about to start anywhere.
func settled(s *status.Snapshot) bool {
	return s.Status.Ready && !slices.ContainsFunc(s.Status.Groups, func(g api.Group) bool { return g.Starting > 0 })
}

// pause waits for an event; false: ctx has ended before.
func pause[T any](ctx context.Context, event <-chan T) bool {
	select {
	case <-event:
		return true
	case <-ctx.Done():
		return false
	}
}
