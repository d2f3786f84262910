package replica

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/shardctl/shardctl/internal/status"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/elect/record"
)

// announcement is what this instance says of itself: what it declares, and what only it can find to be wrong.
type announcement struct {
	set func(context.Context, elect.Member) error

	mu       sync.Mutex // held while it is set, so that an older one never follows a newer
	member   elect.Member
	declared bool
	problems []record.Problem
}

// maxShared is how many problems an instance shares at most.
const maxShared = 20

// declare says what the instance declares.
func (a *announcement) declare(ctx context.Context, m elect.Member) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.member, a.declared = m, true
	return a.say(ctx)
}

// share says what is wrong with the instance, when that is not what it said last. Other words for the same are not
// worth a write.
func (a *announcement) share(ctx context.Context, problems []record.Problem) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if slices.EqualFunc(problems, a.problems, sameShared) {
		return nil
	}
	a.problems = problems
	if !a.declared {
		return nil // the declaration says it
	}
	return a.say(ctx)
}

func sameShared(a, b record.Problem) bool {
	return a.Reason == b.Reason && a.Task == b.Task && a.Since == b.Since
}

// say leaves the problems out where the store would not take them beside the lists.
func (a *announcement) say(ctx context.Context) error {
	m := a.member.Clone()
	if m.Problems = slices.Clone(a.problems); m.Validate() != nil {
		m.Problems = nil
	}
	return a.set(ctx, m)
}

// shared are the problems of this instance that no other can find, the worst first. The last one says how many are
// left out.
func shared(all []api.Problem, instance string) []record.Problem {
	mine := slices.DeleteFunc(slices.Clone(all), func(p api.Problem) bool {
		return p.Instance != instance || !status.OfOneReplica(p.Reason)
	})
	problems := make([]record.Problem, min(len(mine), maxShared))
	for i, p := range mine[:len(problems)] {
		words := ""
		if more := len(mine) - len(problems); more > 0 && i == len(problems)-1 {
			words = fmt.Sprintf(" (and %d more: ask %s)", more, instance)
		}
		problems[i] = record.Problem{
			Reason: p.Reason, Severity: string(p.Severity), Message: cut(p.Message, elect.MaxText-len(words)) + words,
			Group: p.Group, Task: p.Task, Since: p.Since.UnixMilli(),
		}
	}
	return problems
}
