package view

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shardctl/shardctl/internal/cluster"
	"github.com/shardctl/shardctl/internal/reconcile"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/internal/settings"
	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/balancer"
)

// Finding is a problem found in a snapshot. It counts once it has lasted so long.
type Finding struct {
	Problem api.Problem
	Lasting time.Duration
}

// find looks for what is wrong in a snapshot, of which the status is there.
func (m *maker) find(head *api.Status, fail []failingTask, now time.Time) []Finding {
	lease, instance := m.in.Settings.Lease.Duration, m.in.Instance
	found := m.findStore(head)
	for i := range head.Groups {
		found = append(found, m.findCapacity(&head.Groups[i])...)
	}
	for i := range fail {
		t := &fail[i].Task
		if message := failing(t, fail[i].said, now); message != "" {
			found = append(found, Finding{Problem: api.Problem{
				Reason: api.ProblemTaskFailing, Severity: api.SeverityWarning,
				Group: t.Group, Task: t.Key, Instance: t.Instance, Message: message,
			}})
		}
	}
	return slices.Concat(found, m.in.Lists.findDiscovery(m.in.Settings.Groups),
		findClock(m.in.Cluster, instance, lease), findDiffering(m.in.Report, m.in.Settings),
		m.instances.findSilent(lease), m.instances.findDuplicates(lease))
}

// clockSkew is from which difference on clocks are a problem.
const clockSkew = 2 * time.Second

// findClock compares the clock of this replica with that of the store. No lease depends on either.
func findClock(view *cluster.View, instance string, lease time.Duration) []Finding {
	if view == nil || view.Stale || view.Ahead.Abs() < clockSkew {
		return nil
	}
	which := "ahead of"
	if view.Ahead < 0 {
		which = "behind"
	}
	return []Finding{{Lasting: lease / 2, Problem: api.Problem{
		Reason: api.ProblemClockSkew, Severity: api.SeverityWarning, Instance: instance,
		Message: fmt.Sprintf("the clock of this replica is %v %s the store's: schedules fire by it, leases do not "+
			"hang on it",
			view.Ahead.Abs().Round(time.Second), which),
	}}}
}

// findStore finds a store that does not answer, refuses calls, is slow, was restored from a backup, or is set up in a
// way that operators should know of.
func (m *maker) findStore(head *api.Status) []Finding {
	lease, last := m.in.Settings.Lease.Duration, m.in.Heartbeat
	var found []Finding
	switch {
	case !head.Store.Reachable && m.in.loaded():
		p := api.Problem{
			Reason: api.ProblemStoreUnreachable, Severity: api.SeverityError, Instance: head.Instance,
			Message: "it does not answer",
		}
		if last.Err != nil {
			p.Message = "heartbeats fail: " + last.Err.Error()
		}
		found = append(found, Finding{Problem: p})
	case last.Took > lease/20:
		found = append(found, Finding{Lasting: lease / 2, Problem: api.Problem{
			Reason: api.ProblemStoreSlow, Severity: api.SeverityWarning, Instance: head.Instance,
			Message: fmt.Sprintf(
				"a heartbeat takes %v; more than %v, a twentieth of the lease, is slow",
				last.Took.Round(time.Millisecond), lease/20,
			),
		}})
	}
	if m.in.Refused != "" {
		found = append(found, Finding{Problem: api.Problem{
			Reason: api.ProblemStoreRefuses, Severity: api.SeverityError, Instance: head.Instance,
			Message: m.in.Refused,
		}})
	}
	for _, p := range m.in.Store {
		found = append(found, Finding{Problem: api.Problem{
			Reason: p.Reason, Severity: api.SeverityWarning, Message: p.Message,
		}})
	}
	if m.in.Cluster != nil && m.in.Cluster.Forgot {
		found = append(found, Finding{Problem: api.Problem{
			Reason: api.ProblemStoreForgot, Severity: api.SeverityError, Instance: head.Instance,
			Message: "the session of this replica was read below a revision that the store had acknowledged: " +
				"a backup was restored, or its document deleted, while replicas run",
		}})
	}
	return found
}

// findCapacity finds at most one problem of a group: the one that explains the others.
func (m *maker) findCapacity(g *api.Group) []Finding {
	p, lasting := api.Problem{Severity: api.SeverityError, Group: g.Name}, time.Duration(0)
	without := m.tasks.refusals.count(g.Name, balancer.NoInstance)
	left := m.tasks.refusals.count(g.Name, balancer.NoCapacity)
	switch {
	case without > 0:
		p.Reason, p.Message = api.ProblemNoInstance, noInstance(m.in.Settings.Groups, g, without)
	case left > 0:
		p.Reason, p.Message = api.ProblemNoCapacity, noCapacity(g, left)
		if message := m.tasks.refusals.message(g.Name, balancer.NoCapacity); message != "" {
			p.Message += " (" + message + ")"
		}
	case g.Headroom != nil && *g.Headroom < 0 && m.in.loaded():
		p.Reason, p.Severity, lasting = api.ProblemNoHeadroom, api.SeverityWarning, m.in.Settings.Lease.Duration/2
		p.Message = fmt.Sprintf(
			"%s would have no owner if the largest instance were lost: capacity %d for %s",
			countTasks(-*g.Headroom), *g.Capacity, countTasks(g.Demand()),
		)
	default:
		return nil
	}
	return []Finding{{p, lasting}}
}

func noCapacity(g *api.Group, left int) string {
	capacity := "there is no capacity"
	if g.Capacity != nil {
		capacity = fmt.Sprintf("the capacity is %d", *g.Capacity)
	}
	return fmt.Sprintf(
		"%d of %d tasks have no owner: %s; raise the cap or add replicas", left, g.Demand(), capacity,
	)
}

func noInstance(groups []settings.Group, g *api.Group, left int) string {
	why := "no live instance takes part"
	for _, declared := range groups {
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

// findDiffering finds groups whose task lists differ among the replicas.
func findDiffering(report *reconcile.Report, s *settings.Settings) []Finding {
	if report == nil {
		return nil
	}
	var found []Finding
	for group, others := range report.Differs {
		found = append(found, Finding{Lasting: s.Lease.Duration / 2, Problem: api.Problem{
			Reason: api.ProblemConfigDiffers, Severity: api.SeverityError, Group: group, Instance: s.Instance,
			Message: fmt.Sprintf("the task list differs from that of %s at the same revision %d: nothing is "+
				"removed or balanced until they agree", strings.Join(others, ", "), s.Revision),
		}})
	}
	return found
}

// countTasks is "1 task", or "2 tasks".
func countTasks(n int) string {
	if n == 1 {
		return "1 task"
	}
	return strconv.Itoa(n) + " tasks"
}

const (
	failingAfter  = 3                // restarts from which on a task in backoff is a problem
	troubledAfter = 10 * time.Second // from when on trouble of a run that goes on is a problem
)

// failingTask is a task that fails, or will if what its run said does not change.
type failingTask struct {
	api.Task

	said record.TaskStatus
}

// eventually is later than any moment that a status names.
var eventually = time.UnixMilli(math.MaxInt64)

// failing says in what way a task fails, empty when it does not.
func failing(t *api.Task, st record.TaskStatus, now time.Time) string {
	switch {
	case t.State == api.Failed:
		return fmt.Sprintf("failed after %d restarts: %s", t.Restarts, t.LastError)
	case t.State == api.Backoff && t.Restarts >= failingAfter:
		return fmt.Sprintf("crash-looping, in backoff after %d restarts: %s", t.Restarts, t.LastError)
	case t.State == api.Waiting && t.LastError != "":
		return "its last run failed: " + t.LastError
	case t.State == api.Running && st.TroubleSince > 0 &&
		!record.Within(st.TroubleSince, now.UnixMilli(), troubledAfter):
		return "it runs, and does not do its work: " + t.LastError
	default:
		return ""
	}
}

// findSilent finds replicas without a heartbeat for three quarters of a lease that are not known to be dead. The time
// since the last look at a session does not count as its silence.
func (ix instanceIndex) findSilent(lease time.Duration) []Finding {
	if ix.view == nil || ix.view.Stale {
		return nil // this replica reads no heartbeats
	}
	silent := func(v cluster.Session) bool { return v.ID != ix.view.Session && ix.age(v) >= 3*lease/4 }
	others := false // another replica is up, which may take tasks over
	var found []Finding
	for _, v := range ix.view.Sessions {
		if v.State == record.Live && !isClient(v) && !silent(v) {
			others = true
		}
	}
	for _, v := range ix.view.Sessions {
		if v.State == record.Dead || isClient(v) || !silent(v) {
			continue
		}
		owned := 0
		for _, n := range ix.owned[v.ID] {
			owned += n
		}
		found = append(found, Finding{Problem: api.Problem{
			Reason: api.ProblemInstanceSilent, Severity: api.SeverityWarning, Instance: v.Member.Instance,
			Message: silentMessage(owned, others),
		}})
	}
	return found
}

// silentMessage says what becomes of the tasks of a silent replica.
func silentMessage(owned int, others bool) string {
	const silent = "no heartbeat for three quarters of a lease"
	tasks := "its task"
	if owned != 1 {
		tasks = "its " + countTasks(owned)
	}
	switch {
	case owned == 0:
		return silent + "; it owns no tasks"
	case others:
		return silent + ": when its lease ends, others take over " + tasks
	default:
		return silent + ", and no other replica is up to take over " + tasks + ": start one"
	}
}

// findDuplicates finds live replicas of the same name.
func (ix instanceIndex) findDuplicates(lease time.Duration) []Finding {
	var found []Finding
	for name, sessions := range ix.duplicates(lease) {
		found = append(found, Finding{Lasting: lease / 2, Problem: api.Problem{
			Reason: api.ProblemDuplicateInstance, Severity: api.SeverityError, Instance: name,
			Message: fmt.Sprintf("%d live replicas are called %s: give each a name of its own", sessions, name),
		}})
	}
	return found
}

// duplicates counts the sessions of one name that send heartbeats at the same time.
func (ix instanceIndex) duplicates(lease time.Duration) map[string]int {
	if ix.view == nil {
		return nil
	}
	counts := map[string]int{}
	for _, v := range ix.view.Sessions {
		if v.State == record.Live && ix.age(v) < lease/3 && !isClient(v) {
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

// SharedProblems are those that the other replicas say they have.
func SharedProblems(view *cluster.View) []api.Problem {
	if view == nil {
		return nil
	}
	var all []api.Problem
	for _, v := range view.Sessions {
		if v.State == record.Dead || v.ID == view.Session {
			continue
		}
		for _, p := range v.Member.Problems {
			if snapshot.OfOneReplica(p.Reason) {
				all = append(all, api.Problem{
					Reason: p.Reason, Severity: api.Severity(p.Severity), Message: p.Message,
					Group: p.Group, Task: p.Task, Instance: v.Member.Instance, Since: api.Millis(p.Since),
				})
			}
		}
	}
	return all
}
