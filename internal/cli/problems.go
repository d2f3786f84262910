package cli

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/client"
)

// problems are those of the status, the worst and oldest first.
func problems() resource[api.Problem] {
	return resource[api.Problem]{
		kind: "problems", columns: problemColumns(), wanted: wantPlain,
		name: func(p *api.Problem) string { return p.Reason },
		of:   func(c *client.Client) source[api.Problem] { return problemSource{c} },
		gone: func(p *api.Problem) { p.Severity = "over" },
	}
}

// problemSource is the list of problems in the status.
type problemSource struct{ client *client.Client }

// List implements [source].
func (s problemSource) List(ctx context.Context, f client.Filter) ([]api.Problem, error) {
	status, err := s.client.Status(ctx)
	if err != nil {
		return nil, err
	}
	return selectedProblems(status, f), nil
}

// Watch implements [source].
func (s problemSource) Watch(
	ctx context.Context, o client.WatchOptions, handle func(client.Change[api.Problem]) error,
) error {
	var last []api.Problem
	begun := false
	f := o.Filter
	o.Filter = client.Filter{}
	return s.client.WatchStatus(ctx, o, func(status *api.Status) error {
		now := selectedProblems(status, f)
		if !begun {
			begun, last = true, now
			return handle(client.Change[api.Problem]{Kind: client.Snapshot, Items: now, Stale: status.Stale})
		}
		before := last
		last = now
		for _, step := range []struct {
			kind client.ChangeKind
			in   []api.Problem
			not  []api.Problem
		}{{client.Upsert, now, before}, {client.Delete, before, now}} {
			for _, p := range step.in {
				same := func(other api.Problem) bool {
					return sameProblem(&p, &other) && (step.kind == client.Delete || p.Message == other.Message)
				}
				if slices.ContainsFunc(step.not, same) {
					continue
				}
				if err := handle(client.Change[api.Problem]{Kind: step.kind, Items: []api.Problem{p}}); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// sameProblem says whether two problems are one, whose message may have changed.
func sameProblem(a, b *api.Problem) bool {
	return a.Reason == b.Reason && a.Group == b.Group && a.Task == b.Task && a.Instance == b.Instance
}

// selectedProblems are those of a group, or all.
func selectedProblems(s *api.Status, f client.Filter) []api.Problem {
	selected := slices.DeleteFunc(slices.Clone(s.Problems), func(p api.Problem) bool {
		return f.Group != "" && p.Group != f.Group && !strings.HasPrefix(p.Task, f.Group+"/")
	})
	slices.SortStableFunc(selected, func(a, b api.Problem) int {
		return cmp.Or(cmp.Compare(severityRank(a.Severity), severityRank(b.Severity)), a.Since.Compare(b.Since.Time))
	})
	return selected
}

// severityRank is the place of a severity, the worst first.
func severityRank(s api.Severity) int {
	if i := slices.Index([]api.Severity{api.SeverityError, api.SeverityWarning}, s); i >= 0 {
		return i
	}
	return 2
}
