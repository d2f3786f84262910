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
	Kind   string    `json:"kind"` // one of exec, http, callback and the subscription kinds
	Labels Labels    `json:"labels"`
	State  TaskState `json:"state"`

	Owner // in JSON its fields stand in the task

	StateSince Time   `json:"stateSince"`
	Reason     string `json:"reason"`  // of the last move; of an unassigned task: why it has no owner
	Message    string `json:"message"` // the reason, for people
	Restarts   int    `json:"restarts"`
	LastError  string `json:"lastError"`
	NextRunAt  Time   `json:"nextRunAt"`
	PinnedTo   string `json:"pinnedTo"`
	// of the task, and a pause of its group. Requests for one effect are shown until they have had it.
	Overrides Overrides `json:"overrides"`
	Lag       *Lag      `json:"lag"` // how far a subscription is behind, as its owner said last; nil: not known
	// how much work it is, as was reported or measured last; nil: not known
	Load *float64 `json:"load"`
	// share of the load that it is planned with: declaredWeight, or as weightFrom has it
	Weight         int `json:"weight"`
	DeclaredWeight int `json:"declaredWeight"`
	// other fields that the configuration has of it, as they are written there; nil: none of those that are shown
	Declared map[string]string `json:"declared,omitempty"`
}

// Lag is how far a subscription is behind; a number below 0 is not known.
type Lag struct {
	Messages int64 `json:"messages"` // published and not yet acknowledged
	Seconds  int64 `json:"seconds"`  // age of the oldest of them
}

// Group is a set of tasks balanced together under one cap.
type Group struct {
	Name string `json:"name"`
	Cap  *int   `json:"cap"` // most tasks that one instance owns; nil: no cap

	TaskCounts // in JSON its fields stand in the group

	Capacity *int `json:"capacity"` // of all live instances; nil: no cap
	// capacity left once the largest instance is lost, below zero when too few; nil: no cap
	Headroom  *int `json:"headroom"`
	Imbalance int  `json:"imbalance"` // most owned by a live instance less the fewest
	Slots     int  `json:"slots"`     // how many of its tasks are slots of keys; 0: none

	Overrides Overrides `json:"overrides"` // a pause of the group, a rebalance under way

	Discovery *Discovery `json:"discovery"` // what its discover has found; nil: it discovers no tasks
	Weights   *Weights   `json:"weights"`   // what its tasks are weighed by; nil: what is declared

	// other fields that the configuration has of it, as they are written there; nil: none of those that are shown
	Declared map[string]string `json:"declared,omitempty"`
}

// Weights says what a group's tasks are weighed by, other than what is declared.
type Weights struct {
	From        string `json:"from"`        // what they follow: lag, reported or cpu
	Revision    int64  `json:"revision"`    // of the published weights; 0: nothing was published yet
	Raised      int    `json:"raised"`      // tasks that weigh more than without it
	PublishedAt Time   `json:"publishedAt"` // zero: never
	By          string `json:"by"`          // the instance that published them
}

// Discovery says what a group's discover has found, and how looking goes.
type Discovery struct {
	Lister   string `json:"lister"`   // who is asked, as http
	Revision int64  `json:"revision"` // of the list; 0: nothing was published yet
	Found    int    `json:"found"`    // by the last look that succeeded
	Vanished int    `json:"vanished"` // that it did not find, and that have tasks until their grace is over
	LeftOut  int    `json:"leftOut"`  // that have no task: see the problem DiscoveryIncomplete
	LookedAt Time   `json:"lookedAt"` // when a look last succeeded, to half a minute; zero: never
	By       string `json:"by"`       // the instance that looked last
	Error    string `json:"error"`    // why looks fail now; empty: they do not
	// FailingSince is when looks began to fail; zero: they do not.
	FailingSince Time `json:"failingSince"`
}

// TaskCounts are the tasks of a group, in all and by state. The states add up to Tasks: [TaskCounts.Count] fills them.
type TaskCounts struct {
	Tasks      int `json:"tasks"` // the counts of states add up to it
	Waiting    int `json:"waiting"`
	Running    int `json:"running"`
	Starting   int `json:"starting"`
	Stopping   int `json:"stopping"`
	Backoff    int `json:"backoff"`
	Unassigned int `json:"unassigned"`
	Paused     int `json:"paused"`
	Done       int `json:"done"`
	Failed     int `json:"failed"`
}

// Count adds one task in this state to the counts. A state that is not known counts as unassigned, so that
// the counts always add up to Tasks.
func (c *TaskCounts) Count(state TaskState) {
	c.Tasks++
	*c.counter(state)++
}

// InState is the number of tasks in that state; 0 for a state that is not known.
func (c *TaskCounts) InState(state TaskState) int {
	switch state {
	case Waiting, Running, Starting, Stopping, Backoff, Unassigned, Paused, Done, Failed:
		return *c.counter(state)
	default:
		return 0
	}
}

func (c *TaskCounts) counter(state TaskState) *int {
	switch state {
	case Waiting:
		return &c.Waiting
	case Running:
		return &c.Running
	case Starting:
		return &c.Starting
	case Stopping:
		return &c.Stopping
	case Backoff:
		return &c.Backoff
	case Paused:
		return &c.Paused
	case Done:
		return &c.Done
	case Failed:
		return &c.Failed
	default:
		return &c.Unassigned
	}
}

// Owned is the number of tasks that take capacity of an instance.
func (c *TaskCounts) Owned() int {
	return c.Waiting + c.Running + c.Starting + c.Stopping + c.Backoff
}

// Demand is the number of tasks that want to run: all but those that are paused, done or failed.
func (c *TaskCounts) Demand() int { return c.Owned() + c.Unassigned }
