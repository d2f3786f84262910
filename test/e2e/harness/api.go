//go:build linux

package harness

import "slices"

// The documents of the HTTP interface, as far as scenarios read them. They are written down again rather than taken
// from the program, so that a renamed field is found.

// Status is /api/v1/status.
type Status struct {
	Cluster  string        `json:"cluster"`
	Instance string        `json:"instance"`
	Stale    bool          `json:"stale"`
	Ready    bool          `json:"ready"`
	Draining bool          `json:"draining"`
	Store    StoreStatus   `json:"store"`
	Groups   []GroupStatus `json:"groups"`
	Problems []Problem     `json:"problems"`
}

// StoreStatus says how the store does.
type StoreStatus struct {
	Kind      string `json:"kind"`
	Reachable bool   `json:"reachable"`
	Error     string `json:"error"`
}

// GroupStatus counts the tasks of a group by state.
type GroupStatus struct {
	Name       string `json:"name"`
	Cap        *int   `json:"cap"`
	Tasks      int    `json:"tasks"`
	Running    int    `json:"running"`
	Starting   int    `json:"starting"`
	Stopping   int    `json:"stopping"`
	Backoff    int    `json:"backoff"`
	Unassigned int    `json:"unassigned"`
	Capacity   *int   `json:"capacity"`
	Headroom   int    `json:"headroom"`
	Imbalance  int    `json:"imbalance"`
}

// Problem is something wrong, and why.
type Problem struct {
	Reason   string `json:"reason"`
	Severity string `json:"severity"`
	Message  string `json:"message"`
	Group    string `json:"group"`
	Task     string `json:"task"`
	Instance string `json:"instance"`
}

// Task is one of /api/v1/tasks.
type Task struct {
	Key          string `json:"key"`
	State        string `json:"state"`
	Instance     string `json:"instance"`
	Session      string `json:"session"`
	FencingToken int64  `json:"fencingToken"`
	Reason       string `json:"reason"`
	Message      string `json:"message"`
	Restarts     int    `json:"restarts"`
	LastError    string `json:"lastError"`
}

// Instance is one of /api/v1/instances.
type Instance struct {
	Name    string         `json:"name"`
	Session string         `json:"session"`
	State   string         `json:"state"`
	Owned   map[string]int `json:"owned"`
	Caps    map[string]int `json:"caps"`
}

// Group is the status of one group, zero when there is none.
func (s Status) Group(name string) GroupStatus {
	for _, g := range s.Groups {
		if g.Name == name {
			return g
		}
	}
	return GroupStatus{}
}

// ProblemsOf are the problems with a reason.
func (s Status) ProblemsOf(reason string) []Problem {
	return slices.DeleteFunc(slices.Clone(s.Problems), func(p Problem) bool { return p.Reason != reason })
}
