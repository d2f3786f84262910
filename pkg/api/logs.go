package api

import (
	"net/url"
	"strconv"
)

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
