package replica

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/shardctl/shardctl/internal/status"
	"github.com/shardctl/shardctl/pkg/balancer"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/tasks/decode"
)

func storeUnreachable(why string) status.Problem {
	return status.Problem{Reason: status.ProblemStoreUnreachable, Severity: status.SeverityError, Message: why}
}

func storeForgot(instance string) finding {
	return finding{Problem: status.Problem{
		Reason: status.ProblemStoreForgot, Severity: status.SeverityError, Instance: instance,
		Message: "the session of this replica was read below a revision that the store had acknowledged: " +
			"a backup was restored, or its document deleted, while replicas run",
	}}
}

func restartRequired(instance string, fields []string) status.Problem {
	return status.Problem{
		Reason: status.ProblemRestartRequired, Severity: status.SeverityWarning, Instance: instance,
		Message: "changed and in force only after a restart: " + strings.Join(fields, ", "),
	}
}

func configInvalid(instance string, err error) status.Problem {
	message := err.Error()
	var all decode.Errors
	if errors.As(err, &all) && len(all) > 1 {
		message = fmt.Sprintf("%v (and %d more)", all[0], len(all)-1)
	}
	return status.Problem{
		Reason: status.ProblemConfigInvalid, Severity: status.SeverityError, Instance: instance,
		Message: "the changed configuration is refused, the last good one stays: " + message,
	}
}

// find looks for what is wrong in a snapshot.
func (m material) find(s *status.Snapshot) []finding {
	found := m.findStore(&s.Status)
	if m.view != nil && m.view.Forgot {
		found = append(found, storeForgot(s.Status.Instance))
	}
	for i := range s.Status.Groups {
		found = append(found, m.findCapacity(&s.Status.Groups[i])...)
	}
	for i := range s.Tasks {
		t := &s.Tasks[i]
		if message := failing(t); message != "" {
			found = append(found, finding{Problem: status.Problem{
				Reason: status.ProblemTaskFailing, Severity: status.SeverityWarning,
				Group: t.Group, Task: t.Key, Instance: t.Instance, Message: message,
			}})
		}
	}
	return append(found, m.findMembers()...)
}

func (m material) findStore(head *status.Status) []finding {
	lease, last := m.settings.Lease.Duration, m.heartbeat
	switch {
	case !head.Store.Reachable && m.view != nil && m.view.Loaded:
		p := storeUnreachable("it does not answer")
		if last.err != nil {
			p.Message = "heartbeats fail: " + last.err.Error()
		}
		p.Instance = head.Instance
		return []finding{{Problem: p}}
	case last.took > lease/20:
		return []finding{{lasting: lease / 2, Problem: status.Problem{
			Reason: status.ProblemStoreSlow, Severity: status.SeverityWarning, Instance: head.Instance,
			Message: fmt.Sprintf(
				"a heartbeat takes %v; more than %v, a twentieth of the lease, is slow",
				last.took.Round(time.Millisecond), lease/20,
			),
		}}}
	default:
		return nil
	}
}

// findCapacity finds at most one problem of a group: the one that explains the others.
func (m material) findCapacity(g *status.Group) []finding {
	f := finding{Problem: status.Problem{Severity: status.SeverityError, Group: g.Name}}
	without := m.reasons.count(g.Name, balancer.NoInstance)
	left := m.reasons.count(g.Name, balancer.NoCapacity)
	switch {
	case without > 0:
		f.Reason, f.Message = status.ProblemNoInstance, m.noInstance(g, without)
	case left > 0:
		f.Reason, f.Message = status.ProblemNoCapacity, noCapacity(g, left)
	case g.Headroom != nil && *g.Headroom < 0 && m.view != nil && m.view.Loaded:
		f.Reason, f.Severity, f.lasting = status.ProblemNoHeadroom, status.SeverityWarning, m.settings.Lease.Duration/2
		f.Message = fmt.Sprintf("%d tasks would have no owner if the largest instance were lost: capacity %d for %d "+
			"tasks",
			-*g.Headroom, *g.Capacity, g.Demand())
	default:
		return nil
	}
	return []finding{f}
}

func noCapacity(g *status.Group, left int) string {
	capacity := "there is no capacity"
	if g.Capacity != nil {
		capacity = fmt.Sprintf("the capacity is %d", *g.Capacity)
	}
	return fmt.Sprintf(
		"%d of %d tasks have no owner: %s; raise the cap or add replicas", left, g.Demand(), capacity,
	)
}

func (m material) noInstance(g *status.Group, left int) string {
	why := "no live instance takes part"
	for _, declared := range m.settings.Groups {
		if declared.Name == g.Name && len(declared.Selector) > 0 {
			why = fmt.Sprintf(
				"no live instance has the labels %s that instances.selector asks for", labelText(declared.Selector),
			)
		}
	}
	return fmt.Sprintf("%d of %d tasks have no owner: %s", left, g.Demand(), why)
}

// labelText is labels as a selector is written: a=b,c=d.
func labelText(labels map[string]string) string {
	parts := make([]string, 0, len(labels))
	for name, value := range labels {
		parts = append(parts, name+"="+value)
	}
	slices.Sort(parts)
	return strings.Join(parts, ",")
}

// findMembers finds what does not go together among the instances.
func (m material) findMembers() []finding {
	var found []finding
	lease := m.settings.Lease.Duration
	if m.report != nil {
		for group, others := range m.report.Differs {
			found = append(found, finding{lasting: lease / 2, Problem: status.Problem{
				Reason: status.ProblemConfigDiffers, Severity: status.SeverityError, Group: group,
				Instance: m.settings.Instance,
				Message: fmt.Sprintf("the task list differs from that of %s at the same revision %d: nothing is "+
					"removed or balanced until they agree",
					strings.Join(others, ", "), m.settings.Revision),
			}})
		}
	}
	for name, sessions := range m.doubles(lease) {
		found = append(found, finding{lasting: lease / 2, Problem: status.Problem{
			Reason: status.ProblemDuplicateInstance, Severity: status.SeverityError, Instance: name,
			Message: fmt.Sprintf("%d live replicas are called %s: give each a name of its own", sessions, name),
		}})
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

// doubles counts the sessions of one name that send heartbeats at the same time.
func (m material) doubles(lease time.Duration) map[string]int {
	if m.view == nil {
		return nil
	}
	counts := map[string]int{}
	for _, v := range m.view.Sessions {
		if v.State == record.Live && m.age(v) < lease/3 && !isClient(v) {
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
