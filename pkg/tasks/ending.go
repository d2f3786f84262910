package tasks

import (
	"context"
	"fmt"
)

// Ending is how a run ended.
type Ending struct {
	Err      error // nil: success
	Code     int   // exit status; of what has none, 0 or 1
	ByItself bool  // the work ran and ended by itself: the restart policy decides
	Cut      bool  // it had to stop
	// Final says that it must not start again before an operator asks for that, whatever the restart policy: it is
	// done, or with Err it has failed.
	Final bool
}

// NotStarted is the ending of work that could not be started: it is tried again, whatever the restart policy.
func NotStarted(ctx context.Context, err error) Ending {
	return Ending{Err: fmt.Errorf("not started: %w", err), Code: 1, Cut: ctx.Err() != nil}
}

// Ended is the ending of work that returned err by itself. What was cut off cannot be distinguished from what had just
// finished: after ctx has ended it counts as cut.
func Ended(ctx context.Context, err error) Ending {
	end := Ending{Err: err, ByItself: true, Cut: ctx.Err() != nil}
	if err != nil {
		end.Code = 1
	}
	return end
}
