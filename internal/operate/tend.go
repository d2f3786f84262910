package operate

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/shardctl/shardctl/pkg/balancer"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/elect/store"
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
}

// Empty says whether nothing is to be done.
func (t Tending) Empty() bool { return len(t.Seen)+len(t.Forget)+len(t.Expire) == 0 }

// Tend says what is to be done about overrides at a time of the store's clock, Unix ms. live are the instances that
// take part. Drains, cordons and pins that are preferences are forgotten; pauses and strict pins never.
func Tend(overrides []record.Override, live []elect.Member, now int64) Tending {
	var t Tending
	for _, o := range overrides {
		lives := slices.ContainsFunc(live, func(m elect.Member) bool { return names(o, m) })
		unseen := now - o.Seen
		switch {
		case o.Kind.Once():
			if now-o.At >= store.KindOverride.Info().Retention.Milliseconds() {
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

// forgettable says whether an override ends when its instance is not seen for long.
func forgettable(o record.Override) bool {
	return o.Kind == record.OverrideDrain || o.Kind == record.OverrideCordon || o.Kind == record.OverridePin &&
		!o.Strict
}

// names says whether an override names an instance.
func names(o record.Override, m elect.Member) bool {
	if o.Kind == record.OverridePin {
		return balancer.PinnedTo(o.To, m.Instance, m.Zone)
	}
	return o.Scope == record.ScopeInstance && o.Name == m.Instance
}

// Tend reads all overrides and does what [Tend] says. Many replicas may do so at once: each change is written once, and
// an override that was asked for again meanwhile stays.
func (w *Writer) Tend(ctx context.Context, live []elect.Member) error {
	found, err := w.db.List(ctx, store.KindOverride, store.Query{})
	if err != nil {
		return fmt.Errorf("tend the overrides: %w", err)
	}
	overrides := make([]record.Override, 0, len(found.Docs))
	for _, d := range found.Docs {
		o, err := record.OverrideFrom(d)
		if err != nil {
			continue // malformed, by a change out of band: it stays as it is
		}
		overrides = append(overrides, o)
	}
	t := Tend(overrides, live, found.Now)
	var changes []change
	for _, o := range t.Seen {
		o.Seen = found.Now
		changes = append(changes, change{Override: o, op: store.Put})
	}
	for _, o := range slices.Concat(t.Forget, t.Expire) {
		changes = append(changes, change{Override: o, op: store.Delete})
	}
	for batch := range slices.Chunk(changes, store.MaxBatch) {
		if err := w.tend(ctx, batch, found); err != nil {
			return fmt.Errorf("tend the overrides: %w", err)
		}
	}
	return nil
}

// tend writes changes to overrides as they were read. What was lost or refused is left to the next time.
func (w *Writer) tend(ctx context.Context, changes []change, read store.Reply) error {
	writes := make([]store.Change, len(changes))
	for i, c := range changes {
		o := c.Override
		o.Rev = max(c.Rev+1, read.Floor, read.Now)
		writes[i] = store.Change{Op: c.op, IfRev: c.Rev, Doc: o.Doc(w.id())}
	}
	outs, err := w.db.Apply(ctx, writes...)
	if err != nil {
		return err
	}
	var deleted []change
	for i, out := range outs {
		if changes[i].op == store.Delete && out.Status == store.Applied {
			deleted = append(deleted, changes[i])
		}
	}
	if len(deleted) == 0 {
		return nil
	}
	return w.announce(ctx, deleted, forgotten, read.Now)
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

// EventForgotten is the type of events about overrides that ended by themselves. Their reason is the kind in
// PascalCase.
const EventForgotten = "Forgotten"
