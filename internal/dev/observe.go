package dev

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/shardctl/shardctl/internal/sleep"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/client"
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
	Refused bool   // it ended since its configuration is wrong, or its store refuses
	// App is the application beside it, as the cluster knows it; nil: none is known.
	App *api.Application
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

const (
	pollEvery = 200 * time.Millisecond
	pollLimit = time.Second // of one replica's answers
	// pollShare keeps the looking from being the load: at most one part in so many of the time goes into it.
	pollShare = 5
)

// observer asks the replicas how the cluster is. It belongs to one goroutine.
type observer struct {
	cluster *cluster
	http    *http.Client
	base    View   // what does not change
	asked   string // the address that answered last
	last    *picture
	tokens  map[string]Task
}

// picture is what one replica said.
type picture struct {
	status    *api.Status
	instances []api.Instance
	tasks     []api.Task
}

func newObserver(c *cluster, url string) *observer {
	return &observer{
		cluster: c, http: &http.Client{Transport: &http.Transport{}}, tokens: map[string]Task{},
		base: View{Options: c.opts, URL: url, Logs: c.dir},
	}
}

// run looks until ctx ends.
func (o *observer) run(ctx context.Context, views chan<- *View) {
	defer o.http.CloseIdleConnections()
	for {
		began := time.Now()
		v := o.look(ctx)
		select {
		case views <- v:
		case <-ctx.Done():
			return
		}
		if sleep.For(ctx, max(pollEvery, pollShare*time.Since(began))) != nil {
			return
		}
	}
}

func (o *observer) look(ctx context.Context) *View {
	v := o.base
	p, err := o.ask(ctx)
	if err != nil {
		v.Stale = err.Error()
	} else {
		o.last = p
	}
	// After the answers: who has ended is then known to have ended whatever they say.
	v.Replicas = o.cluster.list()
	v.Now = time.Now()
	if p = o.last; p != nil {
		v.Seen = true
		v.Tasks = o.merge(p.tasks)
		v.Problems = problems(p.status.Problems)
		for i := range v.Replicas {
			v.Replicas[i].State = seen(v.Replicas[i], p.instances)
			v.Replicas[i].App = applicationOf(v.Replicas[i], p.instances)
		}
	}
	return &v
}

var errNoReplica = errors.New("no replica answers")

// ask asks the replica that answered last, then the others. One that is not ready is asked only when there is no other:
// it may not know everything yet.
func (o *observer) ask(ctx context.Context) (*picture, error) {
	addresses := o.cluster.addresses()
	for i, a := range addresses {
		if a == o.asked {
			addresses[0], addresses[i] = addresses[i], addresses[0]
		}
	}
	var second *picture
	err := errNoReplica
	for _, a := range addresses {
		p, askErr := o.askOne(ctx, a)
		switch {
		case askErr != nil:
			err = fmt.Errorf("%w: %w", errNoReplica, askErr)
		case p.status.Ready:
			o.asked = a
			return p, nil
		case second == nil && len(p.tasks) > 0:
			second = p
		}
	}
	if second != nil {
		return second, nil
	}
	return nil, err
}

func (o *observer) askOne(ctx context.Context, address string) (*picture, error) {
	ctx, cancel := context.WithTimeout(ctx, pollLimit)
	defer cancel()
	c, err := client.New("http://"+address, client.WithHTTPClient(o.http))
	if err != nil {
		return nil, err
	}
	var p picture
	if p.status, err = c.Status(ctx); err != nil {
		return nil, err
	}
	if p.instances, err = c.Instances().List(ctx, client.Filter{}); err != nil {
		return nil, err
	}
	p.tasks, err = c.Tasks().List(ctx, client.Filter{Group: group})
	return &p, err
}

// merge keeps what was known where this replica knows less: another one that answered before may have been ahead of it,
// and tokens only rise.
func (o *observer) merge(tasks []api.Task) []Task {
	all := make([]Task, len(tasks))
	for i := range tasks {
		t := &tasks[i]
		now := Task{
			Key: t.Key, Owner: t.Instance, State: t.State, Token: t.FencingToken,
			Full: t.State == api.Unassigned && t.Reason == api.ProblemNoCapacity,
		}
		if before := o.tokens[t.Key]; now.Token != 0 && now.Token < before.Token {
			now = before
		}
		o.tokens[t.Key], all[i] = now, now
	}
	return all
}

// seen is the state of a replica whose process may run, by what the cluster says of it.
func seen(r Replica, instances []api.Instance) State {
	if r.State.Gone() {
		return r.State
	}
	best := r.State
	for i := range instances {
		if instances[i].Name != r.Name || !sameAddress(instances[i].Address, r.Address) {
			continue // or it was a process before, which had other ports
		}
		switch instances[i].State {
		case api.Live:
			if r.State == Leaving { // it was asked to, and has not said so yet
				return Leaving
			}
			return Live
		case api.Draining:
			best = Leaving
		case api.Left: // its process ends in a moment
		case api.Dead:
			if best == Starting {
				best = Silent
			}
		}
	}
	return best
}

// applicationOf is the application beside a replica whose process runs; nil: none is known.
func applicationOf(r Replica, instances []api.Instance) *api.Application {
	for i := range instances {
		is := &instances[i]
		up := !r.State.Gone() && (is.State == api.Live || is.State == api.Draining)
		if up && is.Name == r.Name && sameAddress(is.Address, r.Address) {
			return is.Application
		}
	}
	return nil
}

// sameAddress says whether two addresses may be of one process. One that is not known may be of any.
func sameAddress(a, b string) bool { return a == b || a == "" || b == "" }

// problems counts those of each reason.
func problems(all []api.Problem) []Problem {
	var list []Problem
	at := map[string]int{}
	for i := range all {
		reason := all[i].Reason
		if j, ok := at[reason]; ok {
			list[j].Count++
			continue
		}
		at[reason] = len(list)
		list = append(list, Problem{Reason: reason, Text: all[i].Message, Count: 1})
	}
	return list
}
