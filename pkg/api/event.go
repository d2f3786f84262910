package api

import (
	"net/url"
	"strconv"
)

// Event is something that happened to a key, an instance or a configuration.
type Event struct {
	ID           string `json:"id"` // ordered by time
	Time         Time   `json:"time"`
	Type         string `json:"type"`
	Reason       string `json:"reason"`
	Key          string `json:"key"`
	From         string `json:"from"` // names of instances
	To           string `json:"to"`
	FencingToken int64  `json:"fencingToken"`
	By           string `json:"by"`
	Message      string `json:"message"`
}

// Run is one run of a task with ticks, or of one that may end for good.
type Run struct {
	ScheduledAt  Time   `json:"scheduledAt"` // its tick; null for a task without ticks
	StartedAt    Time   `json:"startedAt"`
	EndedAt      Time   `json:"endedAt"` // null while it goes on, or when it was cut off by the end of its replica
	Result       string `json:"result"`  // one of Running, Succeeded, Failed, TimedOut, Interrupted and Skipped
	ExitCode     int    `json:"exitCode"`
	Error        string `json:"error"`
	Attempt      int    `json:"attempt"` // of its tick, from 1; 0: not known
	Instance     string `json:"instance"`
	FencingToken int64  `json:"fencingToken"`
	Output       string `json:"output"` // its last lines, if it failed; at most 2 KiB
}

// LogOptions select from what a task wrote.
type LogOptions struct {
	Tail       int    // at most so many lines, up to 1000, the newest; 0: all that are kept
	After      string // a position that an earlier answer gave: only what was written since; empty: all
	Instance   string // what it wrote on that instance, also before it moved; empty: on its owner
	Previous   bool   // of the run before the newest one, where that was on the same instance
	Timestamps bool   // each line begins with its time, RFC 3339 with nanoseconds, and a space
}

// Values are the parameters of a request for logs.
func (o LogOptions) Values() url.Values {
	values := url.Values{}
	if o.Tail != 0 {
		values.Set("tail", strconv.Itoa(o.Tail))
	}
	for name, text := range map[string]string{"after": o.After, "instance": o.Instance} {
		if text != "" {
			values.Set(name, text)
		}
	}
	for name, on := range map[string]bool{"previous": o.Previous, "timestamps": o.Timestamps} {
		if on {
			values.Set(name, "true")
		}
	}
	return values
}

// The headers of an answer of logs.
const (
	// LogPositionHeader says up to where its output goes. It is opaque, and what ?after= takes.
	LogPositionHeader = "Shardctl-Log-Position"
	// LogInstanceHeader names the instance on which the task wrote it.
	LogInstanceHeader = "Shardctl-Log-Instance"
	// LogTokenHeader is the fencing token of the newest start of the task there.
	LogTokenHeader = "Shardctl-Log-Fencing-Token" //nolint:gosec // G101: a header's name
	// LogEndedHeader is true when that instance did not hold the task any more; else it is absent.
	LogEndedHeader = "Shardctl-Log-Ended"
)
