package elect

import (
	"context"

	"github.com/shardctl/shardctl/pkg/elect/internal/cache"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/elect/store"
)

// read does what a plan of the cache says: the counters first, then what they say has changed. It runs outside the loop.
func (c *core) read(ctx context.Context, p cache.Plan) (cache.Reading, error) {
	r := cache.Reading{Counts: map[string]int64{}, Locks: map[string][]record.Lock{}}
	counters, err := c.list(ctx, store.KindGroup, store.Query{NoBody: true})
	if err != nil {
		return r, err
	}
	r.Clock = counters.Now
	for _, d := range counters.Docs {
		r.Counts[d.ID] = d.Count
	}
	for _, name := range p.Groups() {
		from, ok := p.From(name, r.Counts[name], r.Clock)
		if !ok {
			continue
		}
		docs, err := c.listLocks(ctx, store.Query{Group: name, MinRev: from})
		if err != nil {
			return r, err
		}
		r.Locks[name] = c.decodeLocks(docs)
	}
	if p.Members || p.Full || p.Changed(cache.CounterMembers, r.Counts[cache.CounterMembers]) {
		if err := c.readMembers(ctx, &r); err != nil {
			return r, err
		}
	}
	if p.Overrides || p.Full || p.Changed(cache.CounterOverrides, r.Counts[cache.CounterOverrides]) {
		reply, err := c.list(ctx, store.KindOverride, store.Query{})
		if err != nil {
			return r, err
		}
		r.Overrode = true
		for _, d := range reply.Docs {
			o, err := record.OverrideFrom(d)
			c.malformed.note(c.log, d, err)
			r.Overrides = append(r.Overrides, o)
		}
	}
	return r, nil
}

func (c *core) readMembers(ctx context.Context, r *cache.Reading) error {
	reply, err := c.list(ctx, store.KindMember, store.Query{})
	if err != nil {
		return err
	}
	r.Members = make(map[string]record.Member, len(reply.Docs))
	for _, d := range reply.Docs {
		m, err := record.MemberFrom(d)
		if err != nil { // its owner will write it again; half of its caps would be none
			c.malformed.note(c.log, d, err)
			r.Broken = append(r.Broken, d.ID)
			continue
		}
		r.Members[d.ID] = m
	}
	return nil
}
