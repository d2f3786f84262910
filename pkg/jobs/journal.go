package jobs

import (
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/tasks"
	"github.com/shardctl/shardctl/pkg/tasks/runs"
)

var _ tasks.Journal = journal{}

// journal keeps the runs of this process. It implements [tasks.Journal].
type journal struct {
	instance string
	keeper   *runs.Keeper
	log      logr.Logger
}

// Ran implements [tasks.Journal]. Of a run that its process did not survive, that one's name is not known here.
func (j journal) Ran(key elect.Key, past tasks.PastRun) {
	run := runs.Past(j.instance, past)
	if past.Ended.IsZero() {
		run.Instance = ""
	}
	j.keeper.Add(key, run)
}

// Missed implements [tasks.Journal].
func (j journal) Missed(key elect.Key, tick time.Time, late time.Duration) {
	j.log.Info("A tick came late and is not run", "key", key, "tick", tick.UTC(), "duration", late)
}

// Looping implements [tasks.Journal]: jobs with ticks do not.
func (journal) Looping(elect.Key, tasks.CrashLoop) {}

// Failed implements [tasks.Journal]: jobs with ticks do not.
func (journal) Failed(elect.Key, error) {}
