package tasks

import (
	"errors"
	"testing"

	"github.com/shardctl/shardctl/pkg/elect"
)

func TestWhatEndsForGood(t *testing.T) {
	succeeded, failed := Ending{ByItself: true}, Ending{ByItself: true, Err: errWork, Code: 1}
	notStarted := Ending{Err: errWork, Code: 1}
	for name, c := range map[string]struct {
		restart     RestartPolicy
		maxRestarts int
		end         Ending
		failures    int
		want        bool
	}{
		"always":                           {RestartAlways, 0, succeeded, 100, false},
		"always, too often":                {RestartAlways, 3, succeeded, 4, true},
		"always, often":                    {RestartAlways, 3, succeeded, 3, false},
		"on-failure, succeeded":            {RestartOnFailure, 0, succeeded, 1, true},
		"on-failure, failed":               {RestartOnFailure, 0, failed, 1, false},
		"never, succeeded":                 {RestartNever, 0, succeeded, 1, true},
		"never, failed":                    {RestartNever, 0, failed, 1, true},
		"never, not started":               {RestartNever, 0, notStarted, 1, false},
		"never, not started, too often":    {RestartNever, 1, notStarted, 2, true},
		"on-failure, failed and too often": {RestartOnFailure, 1, failed, 2, true},
	} {
		task := &Task{Restart: c.restart, MaxRestarts: c.maxRestarts}
		if got := task.endsForGood(c.end, c.failures); got != c.want {
			t.Errorf("%s: ends for good %v, want %v", name, got, c.want)
		}
	}
}

func TestWhichOutcomesStillCount(t *testing.T) {
	failedFor := ErrDone.Error() + ": it failed: exit status 1"
	done, failed := &elect.RunOutcome{Succeeded: true, Token: 7}, &elect.RunOutcome{Token: 7, Error: "exit status 1"}
	for name, c := range map[string]struct {
		task    Task
		outcome *elect.RunOutcome
		rerun   int64
		want    string // empty: it does not count
	}{
		"there is none":                        {Task{Restart: RestartNever}, nil, 0, ""},
		"done":                                 {Task{Restart: RestartNever}, done, 0, ErrDone.Error()},
		"failed":                               {Task{Restart: RestartNever}, failed, 0, failedFor},
		"asked for again":                      {Task{Restart: RestartNever}, done, 7, ""},
		"asked for before it ran":              {Task{Restart: RestartNever}, done, 6, ErrDone.Error()},
		"done, of a task that now runs always": {Task{Restart: RestartAlways}, done, 0, ""},
		"failed, of one restarted without a limit": {Task{Restart: RestartAlways}, failed, 0, ""},
		"failed, of one restarted 3 times at most": {
			Task{Restart: RestartAlways, MaxRestarts: 3}, failed, 0, failedFor,
		},
	} {
		err := c.task.ended(c.outcome, Asked{Rerun: c.rerun})
		if (c.want == "") != (err == nil) || err != nil && (err.Error() != c.want || !errors.Is(err, ErrDone)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
