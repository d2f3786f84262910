package replica

import (
	"context"
	"errors"

	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// worker makes the work of keys.
type worker struct {
	runs  *runs
	tasks *tasks.Supervisor
	view  func() *elect.View
}

// run is the work of a key: its task under the supervisor, again as often as its declaration changes.
func (w worker) run(key elect.Key) elect.Runnable {
	return elect.Go(func(ctx context.Context, lease *elect.Lease) error {
		if rerunAsked(w.view(), key, lease.Status().Outcome) {
			if err := forgetOutcome(ctx, lease); err != nil {
				return err
			}
		}
		for {
			err := w.runOnce(ctx, key, lease)
			if errors.Is(err, tasks.ErrDone) {
				lease.Park()
				return err
			}
			if ctx.Err() != nil || !errors.Is(err, errChanged) {
				return err
			}
			if _, err := lease.Advance(ctx, lease.Status()); err != nil {
				return err
			}
		}
	})
}

func (w worker) runOnce(ctx context.Context, key elect.Key, lease *elect.Lease) error {
	ctx, task, err := w.runs.begin(ctx, key)
	if err != nil {
		return err
	}
	defer w.runs.end(key)
	return w.tasks.Run(ctx, task, lease)
}

// forgetOutcome takes the outcome of an earlier run out of the lock. With it the new run would end at once, the plan
// would see that a rerun is still asked for, and so on for ever.
func forgetOutcome(ctx context.Context, lease *elect.Lease) error {
	status := lease.Status()
	status.Outcome, status.LastError, status.Restarts = nil, "", 0
	_, err := lease.Advance(ctx, status)
	return err
}

// rerunAsked says whether an operator asked for a new run after that outcome.
func rerunAsked(v *elect.View, key elect.Key, outcome *elect.RunOutcome) bool {
	if outcome == nil {
		return false
	}
	for _, o := range v.Wishes {
		if o.Kind == elect.WishRerun && elect.Key(o.Name) == key && o.At > outcome.At {
			return true
		}
	}
	return false
}

// ended says whether all keys have an outcome that still counts, and how many of these are failures.
func ended(v *elect.View, keys []elect.Key) (all bool, failed int) {
	if !v.Loaded {
		return false, 0
	}
	for _, key := range keys {
		outcome := v.Locks[key].Status.Outcome
		if outcome == nil || rerunAsked(v, key, outcome) {
			return false, 0
		}
		if !outcome.Succeeded {
			failed++
		}
	}
	return true, failed
}
