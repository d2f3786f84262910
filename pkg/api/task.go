package api

// TaskState is what a task does at the moment.
type TaskState string

// The states of a task. A group counts exactly these.
const (
	Waiting    TaskState = "waiting" // owned, between ticks
	Running    TaskState = "running"
	Starting   TaskState = "starting"
	Stopping   TaskState = "stopping"
	Backoff    TaskState = "backoff"
	Unassigned TaskState = "unassigned"
	Paused     TaskState = "paused"
	Done       TaskState = "done"
	Failed     TaskState = "failed"
)

// TaskStates lists every state, in the order in which they are shown.
func TaskStates() []TaskState {
	return []TaskState{Waiting, Running, Starting, Stopping, Backoff, Unassigned, Paused, Done, Failed}
}

// Task is one named piece of work and who owns it.
type Task struct {
	Key    string    `json:"key"` // GROUP/NAME
	Group  string    `json:"group"`
	Name   string    `json:"name"`
	Kind   string    `json:"kind"` // exec, http, callback or a subscription kind
	Labels Labels    `json:"labels"`
	State  TaskState `json:"state"`

	Owner // in JSON its fields stand in the task

	StateSince Time      `json:"stateSince"`
	Reason     string    `json:"reason"`  // of the last move; of an unassigned task: why it has no owner
	Message    string    `json:"message"` // the same for people
	Restarts   int       `json:"restarts"`
	LastError  string    `json:"lastError"`
	NextRunAt  Time      `json:"nextRunAt"`
	PinnedTo   string    `json:"pinnedTo"`
	Overrides  Overrides `json:"overrides"` // of the task, and a pause of its group
	Lag        *Lag      `json:"lag"`       // of a subscription, as its owner said last; null: not known
	// Weight is the task's share of the load as it is planned with. It is DeclaredWeight, or more by weightFrom.
	Weight         int `json:"weight"`
	DeclaredWeight int `json:"declaredWeight"`
}

// Lag is how far a subscription is behind. A number below 0 is not known.
type Lag struct {
	Messages int64 `json:"messages"` // published and not yet acknowledged
	Seconds  int64 `json:"seconds"`  // age of the oldest of them
}
