package tasks

import (
	"time"

	"github.com/shardctl/shardctl/pkg/elect"
)

// Metrics counts runs. Calls must not block.
type Metrics interface {
	// TaskRestart counts a start of a task without ticks after an earlier one ended by itself.
	TaskRestart(key elect.Key)
	// RunDone counts a run that ended, and how long it took; for ResultSkipped that is 0.
	RunDone(key elect.Key, result Result, took time.Duration)
}

// Result is how a run ended, as in the label of the metric.
type Result string

// The results of runs.
const (
	ResultSucceeded Result = "succeeded"
	ResultFailed    Result = "failed"
	ResultTimeout   Result = "timeout"  // a tick's run passed Task.Timeout
	ResultReplaced  Result = "replaced" // the next tick took its place
	ResultStopped   Result = "stopped"  // the key was released or lost
	ResultSkipped   Result = "skipped"  // the tick found the run before it still going
)

type noMetrics struct{}

func (noMetrics) TaskRestart(elect.Key)                    {}
func (noMetrics) RunDone(elect.Key, Result, time.Duration) {}
