package operate

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/internal/verbs"
	"github.com/shardctl/shardctl/pkg/balancer"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

const (
	// noteEvery is how often an override notes that an instance that it names lives.
	noteEvery = time.Hour
	// forgetAfter is how long the instance may not have been seen before the override is forgotten.
	forgetAfter = 24 * time.Hour
)

// Tending is what time does to overrides.
type Tending struct {
	Seen   []record.Override // to note that an instance that they name lives
	Forget []record.Override // their instance has not been seen for a day
	Expire []record.Override // requests for one effect, a day old
	// Ahead are as they should be that were asked for while the store's clock was far ahead: as if it were now.
	Ahead []record.Override
}

// Empty says whether nothing is to be done.
func (t Tending) Empty() bool { return len(t.Seen)+len(t.Forget)+len(t.Expire)+len(t.Ahead) == 0 }

// Tend says what is to be done about overrides at a time of the store's clock, Unix ms. live are the instances that
// take part. What lasts and names instances is forgotten, such as drains, cordons and pins that are preferences; pauses
// and strict pins never are.
func Tend(overrides []record.Override, live []elect.Member, now int64) Tending {
	var t Tending
	for _, o := range overrides {
		lives := slices.ContainsFunc(live, func(m elect.Member) bool { return names(o, m) })
		unseen := now - o.Seen
		switch {
		case record.Ahead(o.At, now):
			t.Ahead = append(t.Ahead, o.MovedTo(now))
		case o.Kind.Once():
			if now-o.At >= driver.KindOverride.Info().Retention.Milliseconds() {
				t.Expire = append(t.Expire, o)
			}
		case !forgettable(o):
		case o.Seen <= 0, unseen < 0, lives && unseen >= noteEvery.Milliseconds():
			t.Seen = append(t.Seen, o) // also where the time noted cannot be
		case !lives && unseen >= forgetAfter.Milliseconds():
			t.Forget = append(t.Forget, o)
		}
	}
	return t
}

// forgettable reports whether an override ends when the instances that it names are not seen for long.
func forgettable(o record.Override) bool {
	verb, _ := verbs.Leaving(o.Kind)
	return verb.NamesInstances() && (verb.Target != verbs.ToPlace || !o.Strict)
}

// names reports whether an override names an instance.
func names(o record.Override, m elect.Member) bool {
	if verb, _ := verbs.Leaving(o.Kind); verb.Target == verbs.ToPlace {
		return balancer.PinnedTo(o.To, m.Instance, m.Zone)
	}
	return o.Scope == record.ScopeInstance && o.Name == m.Instance
}

// Tend reads all overrides and does what [Tend] says. Many replicas may do so at once: each change is written once, and
// an override that was asked for again meanwhile stays. It returns what was to be done.
func (w *Writer) Tend(ctx context.Context, live []elect.Member) (Tending, error) {
	overrides, found, err := w.overrides(ctx)
	if err != nil {
		return Tending{}, err
	}
	t := Tend(overrides, live, found.Wall)
	var changes []change
	for _, o := range t.Ahead {
		changes = append(changes, change{Override: o, op: driver.Put})
	}
	for _, o := range t.Seen {
		o.Seen = found.Wall
		changes = append(changes, change{Override: o, op: driver.Put})
	}
	for _, o := range slices.Concat(t.Forget, t.Expire) {
		changes = append(changes, change{Override: o, op: driver.Delete})
	}
	return t, w.tend(ctx, changes, found, forgotten)
}

// Ended are the overrides that have ended by themselves at a time of the store's clock, Unix ms. A pause is over once
// its resume stands: ticks up to its end never count. Its resume is to be put before.
func Ended(overrides []record.Override, now int64) (resumes, over []record.Override) {
	standing := make(map[string]record.Override, len(overrides))
	for _, o := range overrides {
		standing[o.ID()] = o
	}
	for _, o := range overrides {
		if !o.Ended(now) {
			continue
		}
		resume := record.Override{Kind: record.OverrideResume, Scope: o.Scope, Name: o.Name}
		before := standing[resume.ID()]
		if o.Kind != record.OverridePause || record.Bounded(before.Resumed(), now) >= o.Until {
			over = append(over, o)
			continue
		}
		resume.Rev, resume.At, resume.Until = before.Rev, now, o.Until
		resumes = append(resumes, resume)
	}
	return resumes, over
}

// End reads all overrides and takes back what [Ended] says, with an event for each. Many replicas may do so at once, as
// with [Writer.Tend].
func (w *Writer) End(ctx context.Context) error {
	for range 2 { // pauses are over the second time
		overrides, found, err := w.overrides(ctx)
		if err != nil {
			return err
		}
		resumes, over := Ended(overrides, found.Wall)
		var changes []change
		for _, o := range resumes {
			changes = append(changes, change{Override: o, op: driver.Put})
		}
		for _, o := range over {
			changes = append(changes, change{Override: o, op: driver.Delete})
		}
		if err := w.tend(ctx, changes, found, ended); err != nil || len(resumes) == 0 {
			return err
		}
	}
	return nil
}

// overrides are all that can be read, with the reply that shows them.
func (w *Writer) overrides(ctx context.Context) ([]record.Override, driver.Reply, error) {
	found, err := w.db.List(ctx, driver.KindOverride, driver.Query{})
	if err != nil {
		return nil, found, fmt.Errorf("tend the overrides: %w", err)
	}
	overrides := make([]record.Override, 0, len(found.Docs))
	for _, d := range found.Docs {
		o, err := record.OverrideFrom(d)
		if err != nil {
			continue // malformed, by a change out of band: it stays as it is
		}
		overrides = append(overrides, o)
	}
	return overrides, found, nil
}

// noted is the event of an override that is deleted; false: there is none.
type noted func(record.Override) (record.Event, bool)

// tend writes changes to overrides as they were read. What was lost or refused is left to the next time.
func (w *Writer) tend(ctx context.Context, changes []change, read driver.Reply, event noted) error {
	for batch := range slices.Chunk(changes, driver.MaxBatch) {
		if err := w.tendBatch(ctx, batch, read, event); err != nil {
			return fmt.Errorf("tend the overrides: %w", err)
		}
	}
	return nil
}

func (w *Writer) tendBatch(ctx context.Context, changes []change, read driver.Reply, event noted) error {
	writes := make([]driver.Change, len(changes))
	for i, c := range changes {
		o := c.Override
		o.Rev = max(c.Rev+1, read.Floor, read.Now)
		writes[i] = driver.Change{Op: c.op, IfRev: c.Rev, Doc: o.Doc(w.id())}
	}
	outs, err := w.db.Apply(ctx, writes...)
	if err != nil {
		return err
	}
	var deleted []change
	for i, out := range outs {
		if changes[i].op == driver.Delete && out.Status == driver.Applied {
			deleted = append(deleted, changes[i])
		}
	}
	if len(deleted) == 0 {
		return nil
	}
	return w.announce(ctx, deleted, event, read.Wall)
}

// forgotten is the event of an override that ended because its instance was not seen; none of one that expired.
func forgotten(o record.Override) (record.Event, bool) {
	if o.Kind.Once() {
		return record.Event{}, false
	}
	e := about(o)
	e.Type, e.Reason = EventForgotten, record.Reason(pascal(string(o.Kind)))
	e.Message = fmt.Sprintf("no instance that it names was seen for %v; asked for%s", forgetAfter, o.Whom())
	return e, true
}

// ended is the event of an override whose time is over.
func ended(o record.Override) (record.Event, bool) {
	e := about(o)
	e.Type, e.Reason = EventEnded, record.Reason(pascal(string(o.Kind)))
	e.Message = fmt.Sprintf("it was asked for until %s%s", time.UnixMilli(o.Until).UTC().Format(time.RFC3339), o.Whom())
	return e, true
}

// The types of events about overrides that ended by themselves. Their reason is the kind in PascalCase.
const (
	EventForgotten = "Forgotten" // the instance was not seen
	EventEnded     = "Ended"     // the time was over
)
