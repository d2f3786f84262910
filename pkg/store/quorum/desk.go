package quorum

import (
	"context"
	"slices"
	"strings"
	"sync"
)

// maxDesks is how many documents are remembered, beyond those that are being changed.
const maxDesks = 20_000

// desk is where one document is changed, by one call of this process at a time.
type desk struct {
	turn   chan struct{}
	users  int
	memory memory
}

// desks are all of a process.
type desks struct {
	mu   sync.Mutex
	all  map[key]*desk
	max  int   // how many are kept
	used int64 // the largest counter of those that were forgotten: no ballot up to it is used again
}

// sit takes the desks of some documents, all or none. The keys must differ. It waits for their turn in one order for
// all callers, so that no two wait for each other.
func (d *desks) sit(ctx context.Context, keys []key) (map[key]*desk, func(), error) {
	keys = slices.Clone(keys)
	slices.SortFunc(keys, func(a, b key) int {
		if a.kind != b.kind {
			return strings.Compare(string(a.kind), string(b.kind))
		}
		return strings.Compare(a.id, b.id)
	})
	taken := make(map[key]*desk, len(keys))
	var held []*desk
	for _, k := range keys {
		taken[k] = d.use(k)
	}
	leave := func() {
		for _, one := range held {
			<-one.turn
		}
		d.leave(taken)
	}
	for _, k := range keys {
		select {
		case taken[k].turn <- struct{}{}:
			held = append(held, taken[k])
		case <-ctx.Done():
			leave()
			return nil, nil, context.Cause(ctx)
		}
	}
	return taken, leave, nil
}

func (d *desks) use(k key) *desk {
	d.mu.Lock()
	defer d.mu.Unlock()
	one := d.all[k]
	if one == nil {
		one = &desk{turn: make(chan struct{}, 1)}
		one.memory.Saw(acceptor{Floor: d.used})
		d.all[k] = one
	}
	one.users++
	return one
}

// leave gives desks back. Those that nobody uses are forgotten when there are many: the next change asks for promises.
func (d *desks) leave(taken map[key]*desk) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, one := range taken {
		one.users--
	}
	for k, one := range d.all {
		if len(d.all) <= d.max {
			return
		}
		if one.users == 0 {
			d.used = max(d.used, one.memory.Used())
			delete(d.all, k)
		}
	}
}
