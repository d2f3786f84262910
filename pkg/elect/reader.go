package elect

import (
	"context"

	"github.com/shardctl/shardctl/pkg/elect/internal/engine"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/store"
)

// refresh does what a plan of the cache says: the counters first, then what they say has changed. It runs outside the
// loop.
func (d *documents) refresh(ctx context.Context, p engine.RefreshPlan) (engine.Reading, error) {
	r := engine.Reading{Counts: map[string]int64{}, Locks: map[string][]*record.Lock{}}
	counters, err := d.list(ctx, store.KindGroup, store.Query{NoBody: true})
	if err != nil {
		return r, err
	}
	r.Clock, r.Floor = counters.Now, counters.Floor
	for _, doc := range counters.Docs {
		r.Counts[doc.ID] = doc.Count
	}
	for _, name := range p.Groups() {
		from, ok := p.From(name, r)
		if !ok {
			continue
		}
		docs, err := d.listLocks(ctx, store.Query{Group: name, MinRev: from})
		if err != nil {
			return r, err
		}
		r.Locks[name] = d.decodeLocks(docs)
	}
	if p.Members || p.Full || p.Changed(engine.CounterMembers, r.Counts[engine.CounterMembers]) {
		if err := d.readMembers(ctx, &r); err != nil {
			return r, err
		}
	}
	if p.Overrides || p.Full || p.Changed(engine.CounterOverrides, r.Counts[engine.CounterOverrides]) {
		reply, err := d.list(ctx, store.KindOverride, store.Query{})
		if err != nil {
			return r, err
		}
		r.Overrode = true
		for _, doc := range reply.Docs {
			o, err := record.OverrideFrom(doc)
			d.malformed.note(d.log, doc, err)
			r.Overrides = append(r.Overrides, o)
		}
	}
	return r, nil
}

func (d *documents) readMembers(ctx context.Context, r *engine.Reading) error {
	reply, err := d.list(ctx, store.KindMember, store.Query{})
	if err != nil {
		return err
	}
	r.Members = make(map[string]record.Member, len(reply.Docs))
	for _, doc := range reply.Docs {
		m, err := record.MemberFrom(doc)
		if err != nil { // its owner will write it again; half of its caps would be none
			d.malformed.note(d.log, doc, err)
			r.Broken = append(r.Broken, doc.ID)
			continue
		}
		r.Members[doc.ID] = m
	}
	return nil
}
