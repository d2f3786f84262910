package dev

import (
	"time"

	"github.com/shardctl/shardctl/pkg/api"
)

// State is how a replica is, by its process and by what the others see of it.
type State string

// The states of a replica.
const (
	Starting State = "starting" // the process runs, the cluster does not know it yet
	Live     State = "live"
	Leaving  State = "leaving" // it hands its tasks over
	Silent   State = "silent"  // the process is there, but the cluster has given it up
	Dead     State = "dead"    // the process ended by a signal or with an error
	Left     State = "left"    // the process ended in order
)

// Gone says whether the process has ended.
func (s State) Gone() bool { return s == Dead || s == Left }

// Replica is what is known of one replica.
type Replica struct {
	Name    string
	State   State
	Guard   int    // process id
	Worker  int    // process id; 0: not known
	Address string // host:port of its page
	Ended   time.Time
	Why     string // how it ended: "signal: killed", its last log line
	Again   bool   // it ended, and is started again
}

// View is all that is known at a moment. It is never changed after it was made.
type View struct {
	Now      time.Time
	Options  Options
	URL      string // of the page
	Logs     string // directory
	Seen     bool   // some replica has shown how the cluster is
	Stale    string // why no replica shows it now; empty: one does
	Replicas []Replica
	Tasks    []Task // by key
	Problems []Problem
}

// Problem is something wrong with the cluster. Those of one reason are one.
type Problem struct {
	Reason string
	Text   string // of the first
	Count  int
}

// Task is who runs a task.
type Task struct {
	Key   string
	Owner string // name of a replica, or ""
	State api.TaskState
	Token int64
	Full  bool // it does not run because no replica has free capacity
}

// Owned counts what a replica owns, and how much of it runs.
func (v *View) Owned(name string) (owned, running int) {
	for _, t := range v.Tasks {
		if t.Owner != name {
			continue
		}
		owned++
		if t.State == api.Running {
			running++
		}
	}
	return owned, running
}

// Running counts the tasks that run on a replica whose process is there.
func (v *View) Running() int {
	gone := v.gone()
	n := 0
	for _, t := range v.Tasks {
		if t.State == api.Running && !gone[t.Owner] {
			n++
		}
	}
	return n
}

// gone are the names of those whose process has ended. The store may not know it yet.
func (v *View) gone() map[string]bool {
	gone := map[string]bool{}
	for _, r := range v.Replicas {
		if r.State.Gone() {
			gone[r.Name] = true
		}
	}
	return gone
}
