package replica

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shardctl/shardctl/internal/config"
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
	lease := m.settings.Lease.Duration
	found := m.findStore(&s.Status)
	if m.view != nil && m.view.Forgot {
		found = append(found, storeForgot(s.Status.Instance))
	}
	for i := range s.Status.Groups {
		found = append(found, m.findCapacity(&s.Status.Groups[i])...)
	}
	for i := range s.Tasks {
		t := &s.Tasks[i]
		if message := failing(t, m.keys.lock(record.Key(t.Key)).Status, time.Now()); message != "" {
			found = append(found, finding{Problem: api.Problem{
				Reason: api.ProblemTaskFailing, Severity: api.SeverityWarning,
				Group: t.Group, Task: t.Key, Instance: t.Instance, Message: message,
			}})
		}
	}
	return slices.Concat(found, m.read.found.find(m.settings.Groups), findClock(m.view, s.Status.Instance, lease),
		findDiffering(m.report, m.settings), m.members.findSilent(lease), m.members.findDoubles(lease))
}

// clockSkew is from which difference on clocks are a problem.
const clockSkew = 2 * time.Second

// findClock compares the clock of this replica with that of the store. No lease depends on either.
func findClock(view *cluster.View, instance string, lease time.Duration) []finding {
	if view == nil || view.Stale || view.Ahead.Abs() < clockSkew {
		return nil
	}
	which := "ahead of"
	if view.Ahead < 0 {
		which = "behind"
	}
	return []finding{{lasting: lease / 2, Problem: api.Problem{
		Reason: api.ProblemClockSkew, Severity: api.SeverityWarning, Instance: instance,
		Message: fmt.Sprintf("the clock of this replica is %v %s the store's: schedules fire by it, leases do not "+
			"hang on it",
			view.Ahead.Abs().Round(time.Second), which),
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
	without := m.keys.reasons.count(g.Name, balancer.NoInstance)
	left := m.keys.reasons.count(g.Name, balancer.NoCapacity)
	switch {
	case without > 0:
		f.Reason, f.Message = api.ProblemNoInstance, noInstance(m.settings.Groups, g, without)
	case left > 0:
		f.Reason, f.Message = api.ProblemNoCapacity, noCapacity(g, left)
		if words := m.keys.reasons.words(g.Name, balancer.NoCapacity); words != "" {
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

func noInstance(groups []config.Group, g *api.Group, left int) string {
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
func findDiffering(report *balancer.Report, s *config.Settings) []finding {
	if report == nil {
		return nil
	}
	var found []finding
	for group, others := range report.Differs {
		found = append(found, finding{lasting: s.Lease.Duration / 2, Problem: api.Problem{
			Reason: api.ProblemConfigDiffers, Severity: api.SeverityError, Group: group, Instance: s.Instance,
			Message: fmt.Sprintf("the task list differs from that of %s at the same revision %d: nothing is "+
				"removed or balanced until they agree", strings.Join(others, ", "), s.Revision),
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
