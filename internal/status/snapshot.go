package status

import (
	"encoding/json"
	"slices"
	"time"
)

// Snapshot is all that one replica knows of the cluster at a moment. It is shared between goroutines and never
// changed after it was published. Tasks and Locks are in order of key, Instances of name and then session:
// [Snapshot.Sort] sees to it.
type Snapshot struct {
	// Version rises with every snapshot that one [Board] publishes; the board sets it.
	Version uint64

	Status    Status
	Tasks     []Task
	Instances []Instance
	Locks     []Lock
}

// Sort puts every list into the order that the API promises. The maker of a snapshot calls it before publishing.
func (s *Snapshot) Sort() {
	slices.SortFunc(s.Tasks, func(a, b Task) int { return compare(a.Key, b.Key) })
	slices.SortFunc(s.Locks, func(a, b Lock) int { return compare(a.Key, b.Key) })
	slices.SortFunc(s.Instances, func(a, b Instance) int { return compare(a.id(), b.id()) })
	slices.SortFunc(s.Status.Groups, func(a, b Group) int { return compare(a.Name, b.Name) })
	SortProblems(s.Status.Problems)
}

// Status is /api/v1/status: the cluster on one screen.
type Status struct {
	Cluster    string    `json:"cluster"`
	Instance   string    `json:"instance"` // the replica that answers
	Version    string    `json:"version"`  // of the program that answers
	ObservedAt Time      `json:"observedAt"`
	Stale      bool      `json:"stale"` // the store is unreachable: this is how it was at ObservedAt
	Ready      bool      `json:"ready"`
	Draining   bool      `json:"draining"`
	Store      Store     `json:"store"`
	Groups     []Group   `json:"groups"`
	Problems   []Problem `json:"problems"`
}

// MarshalJSON writes lists that are nil as empty ones.
func (s Status) MarshalJSON() ([]byte, error) {
	type plain Status
	s.Groups, s.Problems = notNil(s.Groups), notNil(s.Problems)
	return json.Marshal(plain(s))
}

// Store is what the replica that answers sees of the store.
type Store struct {
	Kind      string `json:"kind"` // mongodb or sqlite
	Reachable bool   `json:"reachable"`
	Error     string `json:"error"` // why it is not reachable; never holds a password
}

// Group is a set of tasks balanced together under one cap. The counts of states add up to Tasks: [Group.Count] fills
// them.
type Group struct {
	Name       string `json:"name"`
	Cap        *int   `json:"cap"` // most tasks that one instance owns; nil: no cap
	Tasks      int    `json:"tasks"`
	Waiting    int    `json:"waiting"`
	Running    int    `json:"running"`
	Starting   int    `json:"starting"`
	Stopping   int    `json:"stopping"`
	Backoff    int    `json:"backoff"`
	Unassigned int    `json:"unassigned"`
	Paused     int    `json:"paused"`
	Done       int    `json:"done"`
	Failed     int    `json:"failed"`
	Capacity   *int   `json:"capacity"` // of all live instances; nil: no cap
	// capacity left once the largest instance is lost, below zero when too few; nil: no cap
	Headroom  *int `json:"headroom"`
	Imbalance int  `json:"imbalance"` // most owned by a live instance less the fewest
}

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
	Key          string    `json:"key"` // GROUP/NAME
	Group        string    `json:"group"`
	Name         string    `json:"name"`
	Kind         string    `json:"kind"` // exec, http, callback or a subscription kind
	Labels       Labels    `json:"labels"`
	State        TaskState `json:"state"`
	Instance     string    `json:"instance"` // its owner, empty when there is none
	Session      string    `json:"session"`
	FencingToken int64     `json:"fencingToken"`
	OwnedSince   Time      `json:"ownedSince"`
	StateSince   Time      `json:"stateSince"`
	Reason       string    `json:"reason"`  // of the last move; of an unassigned task: why it has no owner
	Message      string    `json:"message"` // the same for people
	Restarts     int       `json:"restarts"`
	LastError    string    `json:"lastError"`
	NextRunAt    Time      `json:"nextRunAt"`
	PinnedTo     string    `json:"pinnedTo"`
}

// InstanceState is how much an instance takes part.
type InstanceState string

// The states of an instance.
const (
	Live     InstanceState = "live"
	Draining InstanceState = "draining"
	Dead     InstanceState = "dead"
)

// Instance is one running replica, or one that ran lately. Two sessions of one name are two instances here.
type Instance struct {
	Name      string        `json:"name"`
	Session   string        `json:"session"`
	State     InstanceState `json:"state"`
	Zone      string        `json:"zone"`
	Labels    Labels        `json:"labels"`
	Version   string        `json:"version"`
	Revision  string        `json:"revision"`
	Address   string        `json:"address"` // host:port of its server.listen, as others reach it
	StartedAt Time          `json:"startedAt"`
	// since its newest heartbeat was seen, as measured by the replica that answers
	HeartbeatAgeSeconds float64 `json:"heartbeatAgeSeconds"`
	Owned               Counts  `json:"owned"` // by group
	Caps                Counts  `json:"caps"`  // by group; a group without cap is left out
}

func (i Instance) id() string { return i.Name + "\x00" + i.Session }

// Lock is the record of who owns a key, whether a task is declared for it or not.
type Lock struct {
	Key          string `json:"key"`
	Group        string `json:"group"`
	Name         string `json:"name"`
	Instance     string `json:"instance"` // its owner, empty when there is none
	Session      string `json:"session"`
	FencingToken int64  `json:"fencingToken"`
	OwnedSince   Time   `json:"ownedSince"`
	Reason       string `json:"reason"`
	Message      string `json:"message"`
	Next         string `json:"next"`      // the session that it is reserved for, empty when none
	Suspended    bool   `json:"suspended"` // paused, done or not declared
}

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

// List is a page of a list. Continue is opaque, and empty on the last page. A page may hold fewer items than asked for,
// or none, and yet be continued. Stale says that the store is unreachable and this is how it was last seen.
type List[T any] struct {
	Items    []T    `json:"items"`
	Continue string `json:"continue"`
	Stale    bool   `json:"stale"`
}

// MarshalJSON writes a list that is nil as an empty one.
func (l List[T]) MarshalJSON() ([]byte, error) {
	type plain struct {
		Items    []T    `json:"items"`
		Continue string `json:"continue"`
		Stale    bool   `json:"stale"`
	}
	return json.Marshal(plain{notNil(l.Items), l.Continue, l.Stale})
}

// Labels are words that selectors ask for. Nil is written as {}.
type Labels map[string]string

// MarshalJSON writes nil as {}.
func (l Labels) MarshalJSON() ([]byte, error) {
	if l == nil {
		return []byte("{}"), nil
	}
	return json.Marshal(map[string]string(l))
}

// Counts are numbers by group. Nil is written as {}.
type Counts map[string]int

// MarshalJSON writes nil as {}.
func (c Counts) MarshalJSON() ([]byte, error) {
	if c == nil {
		return []byte("{}"), nil
	}
	return json.Marshal(map[string]int(c))
}

// Time is a moment in UTC, or none: the zero value is written as null.
type Time struct{ time.Time }

// Millis is the moment that many milliseconds after the Unix epoch; 0 or less is none.
func Millis(ms int64) Time {
	if ms <= 0 {
		return Time{}
	}
	return Time{time.UnixMilli(ms).UTC()}
}

// timeLayout is RFC 3339 with exactly three decimals, so that texts sort as moments do.
const timeLayout = "2006-01-02T15:04:05.000Z"

// String is RFC 3339 to the millisecond, or "" for none.
func (t Time) String() string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(timeLayout)
}

// MarshalJSON writes RFC 3339 to the millisecond, or null for none.
func (t Time) MarshalJSON() ([]byte, error) {
	if t.IsZero() {
		return []byte("null"), nil
	}
	return []byte(`"` + t.String() + `"`), nil
}

// UnmarshalJSON reads what MarshalJSON writes, and any other RFC 3339.
func (t *Time) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*t = Time{}
		return nil
	}
	var at time.Time
	if err := at.UnmarshalJSON(b); err != nil {
		return err
	}
	t.Time = at.UTC()
	return nil
}

func notNil[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}
