package tasks

import (
	"fmt"

	"github.com/shardctl/shardctl/pkg/elect"
)

// RestartPolicy and MaxRestarts of a task without ticks decide whether it is over.

// endsForGood says whether what has ended stays ended, at so many failures in a row.
func (t *Task) endsForGood(end Ending, failures int) bool {
	switch {
	case end.Final, end.ByItself && t.Restart == RestartNever,
		end.ByItself && t.Restart == RestartOnFailure && end.Err == nil:
		return true
	default:
		return t.MaxRestarts > 0 && failures > t.MaxRestarts
	}
}

// ended says, as an error, that the outcome in the lock still counts. One under another restart policy than the task
// has now may not, and one that an operator wants to be forgotten does not.
func (t *Task) ended(outcome *elect.RunOutcome, asked Asked) error {
	switch {
	case outcome == nil, asked.Rerun > 0 && outcome.Token <= asked.Rerun,
		t.Restart == RestartAlways && !outcome.Final && (outcome.Succeeded || t.MaxRestarts == 0):
		return nil
	case outcome.Succeeded:
		return ErrDone
	default:
		return fmt.Errorf("%w: it failed: %s", ErrDone, outcome.Error)
	}
}
