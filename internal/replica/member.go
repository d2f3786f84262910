package replica

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/internal/settings"
	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/internal/view"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/elect"
)

// memberDoc is the member that this replica writes: what it declares, and what only it knows: problems, and the
// application beside it.
type memberDoc struct {
	set func(context.Context, elect.Member) error

	mu          sync.Mutex // held while it is written, so that an older one never follows a newer
	member      elect.Member
	declared    bool
	problems    []record.Problem
	application *record.Application
	changed     time.Time // when the application last was
}

// showEvery is how often a change of the status of an application, or of what it has to stop, is written.
const showEvery = 5 * time.Second

// maxShared is how many problems an instance shares at most, and how many keys that its application has to stop.
const maxShared = 20

// declare writes what the replica declares.
func (d *memberDoc) declare(ctx context.Context, m elect.Member) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.member, d.declared = m, true
	return d.write(ctx)
}

// share writes the problems of the instance and its application when they have changed. A change of the message of a
// problem alone is not worth a write.
func (d *memberDoc) share(
	ctx context.Context, problems []record.Problem, a *record.Application, now time.Time,
) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	changed := !reflect.DeepEqual(a, d.application) && (!alike(a, d.application) || now.Sub(d.changed) >= showEvery)
	if slices.EqualFunc(problems, d.problems, sameShared) && !changed {
		return nil
	}
	if d.problems = problems; changed {
		d.application, d.changed = a, now
	}
	if !d.declared {
		return nil // declare writes it
	}
	return d.write(ctx)
}

// alike says whether two are one process in one condition.
func alike(a, b *record.Application) bool {
	return a != nil && b != nil && a.ID == b.ID && a.PID == b.PID && a.Ready == b.Ready && a.Message == b.Message
}

func sameShared(a, b record.Problem) bool {
	return a.Reason == b.Reason && a.Task == b.Task && a.Since == b.Since
}

// write leaves out what the store would not take beside the lists.
func (d *memberDoc) write(ctx context.Context) error {
	m := d.member.Clone()
	if m.Problems, m.Application = slices.Clone(d.problems), d.application; m.Validate() != nil {
		m.Problems, m.Application = nil, nil
	}
	return d.set(ctx, m)
}

// shared are the problems of this instance that no other can find, the worst first. The last one says how many are
// left out.
func shared(all []api.Problem, instance string) []record.Problem {
	mine := slices.DeleteFunc(slices.Clone(all), func(p api.Problem) bool {
		return p.Instance != instance || !snapshot.OfOneReplica(p.Reason)
	})
	problems := make([]record.Problem, min(len(mine), maxShared))
	for i, p := range mine[:len(problems)] {
		rest := ""
		if more := len(mine) - len(problems); more > 0 && i == len(problems)-1 {
			rest = fmt.Sprintf(" (and %d more: ask %s)", more, instance)
		}
		problems[i] = record.Problem{
			Reason: p.Reason, Severity: string(p.Severity), Group: p.Group, Task: p.Task, Since: p.Since.UnixMilli(),
			Message: view.Clip(p.Message, elect.MaxText-len(rest)) + rest,
		}
	}
	return problems
}

// member is what the replica declares. Without an application that takes keys it takes none of that one's.
func (c *Config) member(s *settings.Settings, lists view.StoreLists, appTakesKeys bool) elect.Member {
	m := elect.Member{
		Instance: s.Instance, MaxTasks: s.MaxTasks, Zone: s.Zone, Labels: s.Labels, Revision: c.Revision,
		Version: c.Version, Address: s.Server.Advertise, AppAddress: s.App.Address, ListRevision: s.Revision,
		Caps: map[string]int{}, ListHashes: map[string]string{}, WeightRevisions: lists.WeightRevisions(s),
	}
	for _, g := range s.Groups {
		m.ListHashes[g.Name] = g.Hash
		if g.Cap != nil {
			m.Caps[g.Name] = *g.Cap
		}
	}
	if !appTakesKeys {
		for _, group := range assigned(s) {
			m.Caps[group] = 0
		}
	}
	return m
}
