package runs

import (
	"time"

	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/tasks"
)

var results = map[tasks.Result]record.RunResult{
	tasks.ResultSucceeded: record.RunSucceeded, tasks.ResultFailed: record.RunFailed,
	tasks.ResultTimeout: record.RunTimedOut, tasks.ResultReplaced: record.RunInterrupted,
	tasks.ResultStopped: record.RunInterrupted, tasks.ResultSkipped: record.RunSkipped,
}

// Past is a run that is over as it is kept. instance is the process that ran it.
func Past(instance string, past tasks.PastRun) record.Run {
	run := record.Run{
		Tick: millis(past.Start.ScheduledAt), Start: millis(past.Began), End: millis(past.Ended),
		Result: results[past.Result], ExitCode: past.Code, Attempt: past.Start.Attempt, Instance: instance,
		Token: past.Start.Token,
	}
	if past.Err != nil {
		run.Error = past.Err.Error()
	}
	if past.Result == tasks.ResultSkipped {
		run.Start, run.End, run.Attempt = 0, 0, 0
	}
	if past.Result == tasks.ResultReplaced {
		run.Error = "the next tick took its place"
	}
	return run
}

func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}
