package api

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
	ScheduledAt  Time   `json:"scheduledAt"` // its tick; none without ticks
	StartedAt    Time   `json:"startedAt"`
	EndedAt      Time   `json:"endedAt"` // none while it goes on, or when it was cut off by the end of its replica
	Result       string `json:"result"`  // Running, Succeeded, Failed, TimedOut, Interrupted or Skipped
	ExitCode     int    `json:"exitCode"`
	Error        string `json:"error"`
	Attempt      int    `json:"attempt"` // of its tick, from 1; 0: not known
	Instance     string `json:"instance"`
	FencingToken int64  `json:"fencingToken"`
	Output       string `json:"output"` // its last lines, if it failed
}
