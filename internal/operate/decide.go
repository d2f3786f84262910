package operate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/shardctl/shardctl/internal/cluster"
	"github.com/shardctl/shardctl/internal/reconcile"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/balancer"
	"github.com/shardctl/shardctl/pkg/elect"
)

// State is what is known of the cluster when something is asked for.
type State struct {
	View     *cluster.View
	Declared reconcile.Declared
	// Ticks says of declared tasks whether they are fired by a schedule.
	Ticks func(elect.Key) bool
}

// Decision is what becomes of a request.
type Decision struct {
	Put    []record.Override // to be written; Rev and At are the writer's business
	Delete []record.Override // to be taken back
	// Unchanged are names for which all is as asked already.
	Unchanged []string
	Refused   []api.Refusal
}

// Decide says what is to be written for a request that is valid.
func Decide(s State, r Request) Decision {
	d := decider{State: s, request: r, standing: map[string]record.Override{}}
	for _, o := range s.View.Overrides {
		d.standing[o.ID()] = o
	}
	d.declared = map[elect.Key]*reconcile.DeclaredGroup{}
	for i := range s.Declared.Groups {
		g := &s.Declared.Groups[i]
		for _, k := range g.Keys {
			d.declared[k.Key] = g
		}
	}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(r.Names))) {
		d.decide(name)
	}
	return d.Decision
}

// After are the overrides that stand once the decision is written.
func (d Decision) After(before []record.Override) []record.Override {
	changed := map[string]bool{}
	for _, o := range slices.Concat(d.Put, d.Delete) {
		changed[o.ID()] = true
	}
	after := slices.DeleteFunc(slices.Clone(before), func(o record.Override) bool { return changed[o.ID()] })
	return append(after, d.Put...)
}

type decider struct {
	State
	Decision

	request  Request
	standing map[string]record.Override // by ID
	declared map[elect.Key]*reconcile.DeclaredGroup
	owns     map[place]int // nil until it is needed
}

// place is where keys are owned: a session, in one group or, without one, in all.
type place struct{ session, group string }

func (d *decider) decide(name string) {
	o := d.request.override(name)
	if refusal := d.refuse(name); refusal != nil {
		refusal.Name = name
		d.Refused = append(d.Refused, *refusal)
		return
	}
	o = d.complete(o)
	before, stands := d.standing[o.ID()]
	switch {
	case d.request.takesBack() && stands:
		d.Delete = append(d.Delete, before)
		if d.request.Verb == api.Resume {
			o.Kind = record.OverrideResume
			d.Put = append(d.Put, o)
		}
	case d.request.takesBack(), stands && d.sameEffect(before, o), d.isThere(o) && !pending(before, o),
		stands && o.Request != "" && before.Request == o.Request:
		d.Unchanged = append(d.Unchanged, name)
	default:
		d.Put = append(d.Put, o)
	}
}

// sameEffect says whether what stands has the effect that is asked for, or still will have it. One that is to end by
// itself is never the same: its time is counted from now on.
func (d *decider) sameEffect(before, o record.Override) bool {
	return before.To == o.To && before.Strict == o.Strict && before.Until == 0 && d.request.For == 0 &&
		(!o.Kind.Once() || pending(before, o))
}

// pending says whether what stands has not had its effect yet: that gives the task another token. Each trigger is one
// tick more.
func pending(before, o record.Override) bool {
	return before.Token == o.Token && o.Token > 0 && o.Kind != record.OverrideTrigger
}

// isThere says whether a task is to be moved to the very session that owns it.
func (d *decider) isThere(o record.Override) bool {
	target := d.target(o.To)
	return o.Kind == record.OverrideMove && target != nil && target.ID == d.View.Lock(elect.Key(o.Name)).Session
}

// complete fills in what the effect is recognized by. A trigger's number, which the writer gives, is above the last that
// was fired, also where the clock was ahead then.
func (d *decider) complete(o record.Override) record.Override {
	switch lock := d.View.Lock(elect.Key(o.Name)); {
	case o.Kind == record.OverrideTrigger:
		o.Token = lock.Status.LastTrigger
	case o.Scope == record.ScopeTask && o.Kind.Once():
		o.Token = lock.Token
	}
	return o
}

func (d *decider) refuse(name string) *api.Refusal {
	if _, stands := d.standing[d.request.override(name).ID()]; stands && d.request.takesBack() {
		return nil // also of what is declared no more, or it could never be taken back
	}
	switch d.request.Scope {
	case record.ScopeInstance:
		return d.refuseInstance(name)
	case record.ScopeGroup:
		if !slices.ContainsFunc(d.Declared.Groups, func(g reconcile.DeclaredGroup) bool { return g.Name == name }) {
			return refused(api.ReasonNotFound, "no group %q is declared", name)
		}
		return nil
	default:
		return d.refuseTask(elect.Key(name))
	}
}

func (d *decider) refuseInstance(name string) *api.Refusal {
	if _, stands := d.standing[d.request.override(name).ID()]; stands {
		return nil
	}
	known := func(s cluster.Session) bool { return s.Known && s.Member.Instance == name }
	if !slices.ContainsFunc(d.View.Sessions, known) {
		return refused(api.ReasonNotFound, "no instance %q is known; those dead for an hour are forgotten", name)
	}
	return nil
}

func (d *decider) refuseTask(key elect.Key) *api.Refusal {
	group := d.declared[key]
	switch {
	case group == nil && !strings.Contains(string(key), "/"):
		return refused(api.ReasonNotFound, "no task %.80q is declared: name it as GROUP/NAME", string(key))
	case group == nil:
		return refused(api.ReasonNotFound, "no task %q is declared", key)
	}
	lock := d.View.Lock(key)
	paused := d.paused(key)
	switch d.request.Verb {
	case api.Resume:
		if paused != nil {
			return refused(api.RefusedPaused, "its group %s is paused: resume the group", group.Name)
		}
	case api.Restart:
		if !d.owned(lock) || !runs(lock) {
			return refused(api.RefusedNotRunning, "nothing of it runs now")
		}
	case api.Rerun:
		if lock.Status.Outcome == nil {
			return refused(api.RefusedNotEnded, "it has not ended for good: there is nothing to run again")
		}
	case api.Trigger:
		switch {
		case d.Ticks == nil || !d.Ticks(key):
			return refused(api.RefusedNoTicks, "it has neither schedule nor every")
		case paused != nil:
			return paused
		}
	case api.Move:
		if paused != nil {
			return paused
		}
		return d.refuseMove(key, group, lock)
	default: // the rest can always be
	}
	return nil
}

func (d *decider) paused(key elect.Key) *api.Refusal {
	for _, o := range []record.Override{
		{Kind: record.OverridePause, Scope: record.ScopeTask, Name: string(key)},
		{Kind: record.OverridePause, Scope: record.ScopeGroup, Name: key.Group()},
	} {
		if by, ok := d.standing[o.ID()]; ok {
			return refused(api.RefusedPaused, "%s is paused%s: resume it first", o.Name, by.Whom())
		}
	}
	return nil
}

// owned reports whether a session that is not known to be dead owns the lock.
func (d *decider) owned(lock record.Lock) bool {
	return lock.Session != "" && !d.View.Orphaned(&lock, d.View.SessionOf(&lock))
}

// runs says whether something of the task runs, or waits to be tried again.
func runs(lock record.Lock) bool {
	return slices.Contains([]string{"starting", "running", "backoff"}, lock.Status.State)
}

func (d *decider) refuseMove(key elect.Key, group *reconcile.DeclaredGroup, lock record.Lock) *api.Refusal {
	to := d.request.To
	if !d.owned(lock) {
		return refused(api.RefusedNotOwned, "no live instance owns it: it goes where the plan puts it")
	}
	target := d.target(to)
	if target == nil {
		return refused(api.RefusedNotLive, "no live instance %q is known", to)
	}
	if target.ID == lock.Session {
		return nil // it is there: the request is over at once
	}
	for kind, what := range map[record.OverrideKind]string{
		record.OverrideDrain: "drained", record.OverrideCordon: "cordoned",
	} {
		o := record.Override{Kind: kind, Scope: record.ScopeInstance, Name: to}
		if by, ok := d.standing[o.ID()]; ok {
			return refused(api.RefusedNotLive, "%s is %s%s", to, what, by.Whom())
		}
	}
	pin, pinned := d.standing[record.Override{
		Kind: record.OverridePin, Scope: record.ScopeTask, Name: string(key),
	}.ID()]
	switch {
	case !balancer.Selects(group.Selector, target.Member.Labels):
		return refused(api.RefusedNotEligible, "%s has not the labels that group %s asks for", to, group.Name)
	case pinned && pin.Strict && !balancer.PinnedTo(pin.To, target.Member.Instance, target.Member.Zone):
		return refused(api.RefusedPinned, "it is pinned strictly to %s%s: unpin it first", pin.To, pin.Whom())
	}
	return d.refuseFull(target, group.Name)
}

// target is the live session of an instance.
func (d *decider) target(instance string) *cluster.Session {
	for i := range d.View.Sessions {
		if s := &d.View.Sessions[i]; s.Known && s.State == record.Live && s.Member.Instance == instance {
			return s
		}
	}
	return nil
}

// refuseFull refuses what a cap forbids, and counts what this request moves.
func (d *decider) refuseFull(target *cluster.Session, group string) *api.Refusal {
	if d.owns == nil {
		d.owns = map[place]int{}
		for key, lock := range d.View.Locks {
			owner := lock.Session
			if owner == "" {
				owner = lock.Next
			}
			d.owns[place{owner, key.Group()}]++
			d.owns[place{owner, ""}]++
		}
	}
	here, inAll := place{target.ID, group}, place{target.ID, ""}
	name := target.Member.Instance
	if limit, ok := target.Member.Caps[group]; ok && d.owns[here] >= limit {
		return refused(api.RefusedNoCapacity, "%s owns %d of group %s, its cap is %d", name, d.owns[here], group, limit)
	}
	if limit := target.Member.MaxTasks; limit > 0 && d.owns[inAll] >= limit {
		return refused(api.RefusedNoCapacity, "%s owns %d tasks, its maxTasks is %d", name, d.owns[inAll], limit)
	}
	d.owns[here]++
	d.owns[inAll]++
	return nil
}

func refused(reason, format string, args ...any) *api.Refusal {
	return &api.Refusal{Reason: reason, Message: fmt.Sprintf(format, args...)}
}
