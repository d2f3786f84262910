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

func compare(a, b string) int { return strings.Compare(a, b) }
