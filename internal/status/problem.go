package status

import (
	"cmp"
	"slices"
	"strings"

	"github.com/shardctl/shardctl/pkg/api"
)

// SortProblems puts errors before warnings, and then the order is by reason, group, task and instance.
func SortProblems(problems []api.Problem) {
	slices.SortStableFunc(problems, func(a, b api.Problem) int {
		return cmp.Or(
			cmp.Compare(severityRank(a.Severity), severityRank(b.Severity)),
			compare(a.Reason, b.Reason),
			compare(a.Group, b.Group),
			compare(a.Task, b.Task),
			compare(a.Instance, b.Instance),
		)
	})
}

// OfOneReplica says whether only the replica that has a problem of this reason can find it. It shares it with the
// others, which show it too.
func OfOneReplica(reason string) bool {
	switch reason {
	case api.ProblemStopStuck, api.ProblemStartStuck, api.ProblemStoreSlow, api.ProblemStoreForgot,
		api.ProblemClockSkew, api.ProblemConfigInvalid, api.ProblemRestartRequired:
		return true
	default:
		return false
	}
}

// FoundBy says whether the instance itself found the problem, rather than read of it.
func FoundBy(p *api.Problem, instance string) bool {
	return p.Instance == instance || !OfOneReplica(p.Reason)
}

func severityRank(s api.Severity) int {
	switch s {
	case api.SeverityError:
		return 0
	case api.SeverityWarning:
		return 1
	default:
		return 2
	}
}

// Runbook is the address of the section that says what to do about problems of this reason.
func Runbook(reason string) string {
	return "https://github.com/shardctl/shardctl/blob/main/docs/operations/problems.md#" + strings.ToLower(reason)
}

// Measure fills Capacity, Headroom and Imbalance of a group. Each offer is one live instance that may own tasks of this
// group. Count the tasks first. Without a cap (any offer unlimited) Capacity and Headroom are nil.
func Measure(g *api.Group, offers []Offer) {
	g.Capacity, g.Headroom, g.Imbalance = nil, nil, Imbalance(offers)
	capacity, largest := 0, 0
	for _, p := range offers {
		if p.Cap < 0 {
			return
		}
		capacity += p.Cap
		largest = max(largest, p.Cap)
	}
	if len(offers) == 0 && g.Cap == nil {
		return
	}
	headroom := capacity - largest - g.Demand()
	g.Capacity, g.Headroom = &capacity, &headroom
}

// Offer is what one live instance offers a group.
type Offer struct {
	// most tasks of the group that it may own, its maxTasks less what it owns elsewhere included; below 0: no limit
	Cap   int
	Owned int // tasks of the group that it owns
}

// Imbalance is the most that one of them owns less the fewest, not counting those that are below the most only because
// they are full.
func Imbalance(offers []Offer) int {
	most, fewest := 0, -1
	for _, p := range offers {
		most = max(most, p.Owned)
	}
	for _, p := range offers {
		full := p.Cap >= 0 && p.Owned >= p.Cap
		if full && p.Owned < most {
			continue
		}
		if fewest < 0 || p.Owned < fewest {
			fewest = p.Owned
		}
	}
	if fewest < 0 {
		return 0
	}
	return most - fewest
}
