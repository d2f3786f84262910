package replica

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shardctl/shardctl/internal/status"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/balancer"
	"github.com/shardctl/shardctl/pkg/elect/cluster"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/tasks/decode"
)

func storeUnreachable(why string) api.Problem {
	return api.Problem{Reason: api.ProblemStoreUnreachable, Severity: api.SeverityError, Message: why}
}

func storeForgot(instance string) finding {
	return finding{Problem: api.Problem{
		Reason: api.ProblemStoreForgot, Severity: api.SeverityError, Instance: instance,
		Message: "the session of this replica was read below a revision that the store had acknowledged: " +
			"a backup was restored, or its document deleted, while replicas run",
	}}
}

func restartRequired(instance string, fields []string) api.Problem {
	return api.Problem{
		Reason: api.ProblemRestartRequired, Severity: api.SeverityWarning, Instance: instance,
		Message: "changed and in force only after a restart: " + strings.Join(fields, ", "),
	}
}

func configInvalid(instance string, err error) api.Problem {
	message := err.Error()
	var all decode.Errors
	if errors.As(err, &all) && len(all) > 1 {
		message = fmt.Sprintf("%v (and %d more)", all[0], len(all)-1)
	}
	return api.Problem{
		Reason: api.ProblemConfigInvalid, Severity: api.SeverityError, Instance: instance,
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
		if message := failing(t, m.lock(record.Key(t.Key)).Status, time.Now()); message != "" {
			found = append(found, finding{Problem: api.Problem{
				Reason: api.ProblemTaskFailing, Severity: api.SeverityWarning,
				Group: t.Group, Task: t.Key, Instance: t.Instance, Message: message,
			}})
		}
	}
	found = append(found, m.findDiscovery()...)
	found = append(found, m.findClock(s.Status.Instance)...)
	return append(found, m.findMembers()...)
}

// clockSkew is from which difference on clocks are a problem.
const clockSkew = 2 * time.Second

// findClock compares the clock of this replica with that of the store. No lease depends on either.
func (m material) findClock(instance string) []finding {
	if m.view == nil || m.view.Stale || m.view.Ahead.Abs() < clockSkew {
		return nil
	}
	which := "ahead of"
	if m.view.Ahead < 0 {
		which = "behind"
	}
	return []finding{{lasting: m.settings.Lease.Duration / 2, Problem: api.Problem{
		Reason: api.ProblemClockSkew, Severity: api.SeverityWarning, Instance: instance,
		Message: fmt.Sprintf("the clock of this replica is %v %s the store's: schedules fire by it, leases do not "+
			"hang on it",
			m.view.Ahead.Abs().Round(time.Second), which),
	}}}
}

func (m material) findStore(head *api.Status) []finding {
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
		return []finding{{lasting: lease / 2, Problem: api.Problem{
			Reason: api.ProblemStoreSlow, Severity: api.SeverityWarning, Instance: head.Instance,
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
func (m material) findCapacity(g *api.Group) []finding {
	f := finding{Problem: api.Problem{Severity: api.SeverityError, Group: g.Name}}
	without := m.reasons.count(g.Name, balancer.NoInstance)
	left := m.reasons.count(g.Name, balancer.NoCapacity)
	switch {
	case without > 0:
		f.Reason, f.Message = api.ProblemNoInstance, m.noInstance(g, without)
	case left > 0:
		f.Reason, f.Message = api.ProblemNoCapacity, noCapacity(g, left)
		if words := m.reasons.words(g.Name, balancer.NoCapacity); words != "" {
			f.Message += " (" + words + ")"
		}
	case g.Headroom != nil && *g.Headroom < 0 && m.view != nil && m.view.Loaded:
		f.Reason, f.Severity, f.lasting = api.ProblemNoHeadroom, api.SeverityWarning, m.settings.Lease.Duration/2
		f.Message = fmt.Sprintf(
			"%s would have no owner if the largest instance were lost: capacity %d for %s",
			countTasks(-*g.Headroom), *g.Capacity, countTasks(g.Demand()),
		)
	default:
		return nil
	}
	return []finding{f}
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

func (m material) noInstance(g *api.Group, left int) string {
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
			found = append(found, finding{lasting: lease / 2, Problem: api.Problem{
				Reason: api.ProblemConfigDiffers, Severity: api.SeverityError, Group: group,
				Instance: m.settings.Instance,
				Message: fmt.Sprintf("the task list differs from that of %s at the same revision %d: nothing is "+
					"removed or balanced until they agree",
					strings.Join(others, ", "), m.settings.Revision),
			}})
		}
	}
	found = append(found, m.findSilent(lease)...)
	for name, sessions := range m.doubles(lease) {
		found = append(found, finding{lasting: lease / 2, Problem: api.Problem{
			Reason: api.ProblemDuplicateInstance, Severity: api.SeverityError, Instance: name,
			Message: fmt.Sprintf("%d live replicas are called %s: give each a name of its own", sessions, name),
		}})
	}
	return found
}

// findSilent finds replicas that have not been heard of for three quarters of a lease, and are not known to be dead. In
// large clusters half a lease may pass between two looks at all.
func (m material) findSilent(lease time.Duration) []finding {
	if m.view == nil || m.view.Stale {
		return nil // this replica hears of no one
	}
	silent := func(v cluster.Session) bool { return v.ID != m.view.Session && m.age(v) >= 3*lease/4 }
	others := false // one at least is up, which may take tasks over
	var found []finding
	for _, v := range m.view.Sessions {
		if v.State == record.Live && !isClient(v) && !silent(v) {
			others = true
		}
	}
	for _, v := range m.view.Sessions {
		if v.State == record.Dead || isClient(v) || !silent(v) {
			continue
		}
		owned := 0
		for _, n := range m.owned[v.ID] {
			owned += n
		}
		found = append(found, finding{Problem: api.Problem{
			Reason: api.ProblemInstanceSilent, Severity: api.SeverityWarning, Instance: v.Member.Instance,
			Message: silentWords(owned, others),
		}})
	}
	return found
}

// sharedBy are what other replicas say is wrong with them.
func sharedBy(view *cluster.View) []api.Problem {
	if view == nil {
		return nil
	}
	var all []api.Problem
	for _, v := range view.Sessions {
		if v.State == record.Dead || v.ID == view.Session {
			continue
		}
		for _, p := range v.Member.Problems {
			if status.OfOneReplica(p.Reason) {
				all = append(all, api.Problem{
					Reason: p.Reason, Severity: api.Severity(p.Severity), Message: p.Message,
					Group: p.Group, Task: p.Task, Instance: v.Member.Instance, Since: api.Millis(p.Since),
				})
			}
		}
	}
	return all
}

// silentWords say what becomes of the tasks of a silent replica.
func silentWords(owned int, others bool) string {
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

// countTasks is "1 task", or "2 tasks".
func countTasks(n int) string {
	if n == 1 {
		return "1 task"
	}
	return strconv.Itoa(n) + " tasks"
}

// failing says in what way a task fails, nothing when it does not.
func failing(t *api.Task, said record.TaskStatus, now time.Time) string {
	switch {
	case t.State == api.Failed:
		return fmt.Sprintf("failed after %d restarts: %s", t.Restarts, t.LastError)
	case t.State == api.Backoff && t.Restarts >= failingAfter:
		return fmt.Sprintf("crash-looping, in backoff after %d restarts: %s", t.Restarts, t.LastError)
	case t.State == api.Waiting && t.LastError != "":
		return "its last run failed: " + t.LastError
	case t.State == api.Running && said.TroubleSince > 0 && now.Sub(time.UnixMilli(said.TroubleSince)) >= troubledAfter:
		return "it runs, and does not do its work: " + t.LastError
	default:
		return ""
	}
}

// troubledAfter is from when on trouble of a run that goes on is a problem.
const troubledAfter = 10 * time.Second

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
