package replica

import (
	"fmt"
	"time"

	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/elect/cluster"
	"github.com/shardctl/shardctl/pkg/elect/record"
)

// findSilent finds replicas that have not been heard of for three quarters of a lease, and are not known to be dead. In
// large clusters half a lease may pass between two looks at all.
func (m members) findSilent(lease time.Duration) []finding {
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

// findDoubles finds replicas that have one name.
func (m members) findDoubles(lease time.Duration) []finding {
	var found []finding
	for name, sessions := range m.doubles(lease) {
		found = append(found, finding{lasting: lease / 2, Problem: api.Problem{
			Reason: api.ProblemDuplicateInstance, Severity: api.SeverityError, Instance: name,
			Message: fmt.Sprintf("%d live replicas are called %s: give each a name of its own", sessions, name),
		}})
	}
	return found
}

// doubles counts the sessions of one name that send heartbeats at the same time.
func (m members) doubles(lease time.Duration) map[string]int {
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
