package replica

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/shardctl/shardctl/internal/config"
	"github.com/shardctl/shardctl/internal/status"
	"github.com/shardctl/shardctl/pkg/elect"
)

// problemBook keeps what is wrong and since when. Some problems are set and cleared by events; the rest are found anew
// with each snapshot.
type problemBook struct {
	mu     sync.Mutex
	marked map[problemID]status.Problem
	since  map[problemID]time.Time // of those found with the last snapshots
}

type problemID struct{ reason, group, task, instance string }

func (b *problemBook) init() {
	b.marked, b.since = map[problemID]status.Problem{}, map[problemID]time.Time{}
}

func idOf(p status.Problem) problemID { return problemID{p.Reason, p.Group, p.Task, p.Instance} }

func (b *problemBook) set(p status.Problem) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p.Since = status.Millis(time.Now().UnixMilli())
	if known, ok := b.marked[idOf(p)]; ok {
		p.Since = known.Since
	}
	b.marked[idOf(p)] = p
}

// clear removes every problem of a reason.
func (b *problemBook) clear(reason string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id := range b.marked {
		if id.reason == reason {
			delete(b.marked, id)
		}
	}
}

func (b *problemBook) clearTask(reason, task string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id := range b.marked {
		if id.reason == reason && id.task == task {
			delete(b.marked, id)
		}
	}
}

// with returns those that are set and those found just now, each since it was first seen. A problem found that has not lasted
// as long as it must is left out.
func (b *problemBook) with(found []finding, now time.Time) []status.Problem {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []status.Problem
	for _, p := range b.marked {
		all = append(all, p)
	}
	since := make(map[problemID]time.Time, len(found))
	for _, f := range found {
		id := idOf(f.Problem)
		if since[id] = b.since[id]; since[id].IsZero() {
			since[id] = now
		}
		if now.Sub(since[id]) < f.lasting {
			continue
		}
		f.Since = status.Millis(since[id].UnixMilli())
		all = append(all, f.Problem)
	}
	b.since = since
	return all
}

// finding is a problem found with a snapshot; it counts once it has lasted so long.
type finding struct {
	status.Problem
	lasting time.Duration
}

func restartRequired(instance string, fields []string) status.Problem {
	return status.Problem{
		Reason: status.ProblemRestartRequired, Severity: status.SeverityWarning, Instance: instance,
		Message: "changed and in force only after a restart: " + strings.Join(fields, ", "),
	}
}

func configInvalid(instance string, err error) status.Problem {
	message := err.Error()
	var all config.Errors
	if errors.As(err, &all) && len(all) > 1 {
		message = fmt.Sprintf("%v (and %d more)", all[0], len(all)-1)
	}
	return status.Problem{
		Reason: status.ProblemConfigInvalid, Severity: status.SeverityError, Instance: instance,
		Message: "the changed configuration is refused, the last good one stays: " + message,
	}
}

// find looks for what is wrong in a snapshot.
func (r *Replica) find(s *status.Snapshot, m material) []finding {
	var found []finding
	add := func(reason string, severity status.Severity, lasting time.Duration, group, task, instance, format string, args ...any) {
		found = append(found, finding{lasting: lasting, Problem: status.Problem{
			Reason: reason, Severity: severity, Group: group, Task: task, Instance: instance, Message: fmt.Sprintf(format, args...),
		}})
	}
	lease := m.settings.Lease.Duration
	took, err := r.beats.last()
	switch {
	case !s.Status.Store.Reachable && m.view != nil && m.view.Loaded:
		why := "it does not answer"
		if err != nil {
			why = "heartbeats fail: " + err.Error()
		}
		add(status.ProblemStoreUnreachable, status.SeverityError, 0, "", "", s.Status.Instance, "%s", why)
	case took > lease/20:
		add(status.ProblemStoreSlow, status.SeverityWarning, lease/2, "", "", s.Status.Instance,
			"a heartbeat takes %v; more than %v, a twentieth of the lease, is slow", took.Round(time.Millisecond), lease/20)
	}
	for i := range s.Status.Groups {
		g := &s.Status.Groups[i]
		if left := m.reasons.count(g.Name); left > 0 {
			add(status.ProblemNoCapacity, status.SeverityError, 0, g.Name, "", "", "%s", m.noCapacity(g, left))
		} else if g.Headroom != nil && *g.Headroom < 0 && m.view != nil && m.view.Loaded {
			add(status.ProblemNoHeadroom, status.SeverityWarning, lease/2, g.Name, "", "",
				"%d tasks would have no owner if the largest instance were lost: %d places for %d tasks", -*g.Headroom, *g.Capacity, g.Demand())
		}
	}
	for i := range s.Tasks {
		if message := failing(&s.Tasks[i]); message != "" {
			t := &s.Tasks[i]
			add(status.ProblemTaskFailing, status.SeverityWarning, 0, t.Group, t.Key, t.Instance, "%s", message)
		}
	}
	for group, others := range m.differs() {
		add(status.ProblemConfigDiffers, status.SeverityError, lease/2, group, "", s.Status.Instance,
			"the task list differs from that of %s at the same revision %d: nothing is removed or balanced until they agree",
			strings.Join(others, ", "), m.settings.Revision)
	}
	for name, sessions := range m.doubles(lease) {
		add(status.ProblemDuplicateInstance, status.SeverityError, lease/2, "", "", name,
			"%d live replicas are called %s: give each a name of its own", sessions, name)
	}
	return found
}

// failing says in what way a task fails, nothing when it does not.
func failing(t *status.Task) string {
	switch {
	case t.State == status.Failed, t.State == status.Backoff && t.Restarts >= failingAfter:
		return fmt.Sprintf("%s after %d restarts: %s", t.State, t.Restarts, t.LastError)
	case t.State == status.Waiting && t.LastError != "":
		return "its last run failed: " + t.LastError
	default:
		return ""
	}
}

// failingAfter is from how many restarts on a task in backoff is a problem.
const failingAfter = 3

// differs lists, by group, the instances whose list is another.
func (m material) differs() map[string][]string {
	if m.report == nil {
		return nil
	}
	return m.report.Differs
}

// doubles counts the sessions of one name that beat at the same time.
func (m material) doubles(lease time.Duration) map[string]int {
	if m.view == nil {
		return nil
	}
	counts := map[string]int{}
	for _, v := range m.view.Sessions {
		if v.State == elect.Live && m.age(v) < lease/3 {
			counts[v.Member.Instance]++
		}
	}
	for name, n := range counts {
		if n < 2 {
			delete(counts, name)
		}
	}
	return counts
}
