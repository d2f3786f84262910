package status

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// initialSnapshot is the first event of a watch: a list as it was at a moment, encoded once for all with the same
// conditions.
type initialSnapshot struct {
	text  *packed
	next  int             // the number of the first change after it
	stale bool            // it says that the store is unreachable
	sent  map[string]bool // ids of events in it that may come again as changes; nil: there are none

	made int // in which order they were made
}

// pack encodes it as an event of a stream.
func (o *initialSnapshot) pack(id string, l lines) (err error) {
	o.text, err = pack("data: ", func(b *body) {
		b.text("event: snapshot\nid: ", id, "\n")
		l(b)
		b.text("\n")
	})
	return err
}

func (o *initialSnapshot) size() int64 { return int64(len(o.text.data)) }

// conditions are what an initial snapshot depends on.
type conditions struct {
	subscription any // or tail
	scope        string
	limit        int // 0: none
	hidden       bool
	public       bool // of strangers alone
}

// all says whether nothing is left out: most watchers ask so, and share one initial snapshot.
func (c conditions) all() bool { return strings.HasSuffix(c.scope, "?") }

// maxInitialBytes is how many bytes of initial snapshots are kept for watchers that come later.
const maxInitialBytes = 8 << 20

// initialSnapshots makes and keeps them. A thousand watchers that come back at once, as after a restart, cost one list
// of each kind. Use newInitialSnapshots.
type initialSnapshots struct {
	// One for each that is made at the moment. Many filters, each another one, do not hold up those who have none, and
	// those of strangers hold up nobody else.
	slots, filtered, public chan struct{}

	mu    sync.Mutex
	known map[conditions]*initialSnapshot
	made  int
}

func newInitialSnapshots(atOnce int) *initialSnapshots {
	return &initialSnapshots{
		slots: make(chan struct{}, atOnce), filtered: make(chan struct{}, atOnce), public: make(chan struct{}, atOnce),
		known: map[conditions]*initialSnapshot{},
	}
}

// halfTheProcessors leaves the other half to the rest, heartbeats among it.
func halfTheProcessors() int { return max(1, runtime.GOMAXPROCS(0)/2) }

// get is an initial snapshot that may be used, or a new one. It waits while others are made. The error is of ctx or of
// fresh.
func (o *initialSnapshots) get(
	ctx context.Context, c conditions, usable func(*initialSnapshot) bool, fresh func() (*initialSnapshot, error),
) (*initialSnapshot, error) {
	if found := o.find(c, usable); found != nil {
		return found, nil
	}
	slots := o.slots
	switch {
	case c.public:
		slots = o.public
	case !c.all():
		slots = o.filtered
	}
	select {
	case slots <- struct{}{}:
		defer func() { <-slots }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if found := o.find(c, usable); found != nil { // another watcher has waited for the same
		return found, nil
	}
	made, err := fresh()
	if err != nil {
		return nil, err
	}
	o.keep(c, made)
	return made, nil
}

func (o *initialSnapshots) find(c conditions, usable func(*initialSnapshot) bool) *initialSnapshot {
	o.mu.Lock()
	defer o.mu.Unlock()
	if found := o.known[c]; found != nil && usable(found) {
		return found
	}
	return nil
}

// keep adds an initial snapshot, and drops the oldest of too many, those of filters first.
func (o *initialSnapshots) keep(c conditions, made *initialSnapshot) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.made++
	made.made = o.made
	o.known[c] = made
	for o.size() > maxInitialBytes && len(o.known) > 1 {
		delete(o.known, slices.MinFunc(slices.Collect(maps.Keys(o.known)), func(a, b conditions) int {
			if a.all() != b.all() {
				if a.all() {
					return 1
				}
				return -1
			}
			return cmp.Compare(o.known[a].made, o.known[b].made)
		}))
	}
}

// size is in bytes.
func (o *initialSnapshots) size() (total int64) {
	for c, known := range o.known {
		total += known.size() + int64(len(c.scope))
	}
	return total
}

// forget drops those of a list that is not watched any more.
func (o *initialSnapshots) forget(subscription any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for c := range o.known {
		if c.subscription == subscription {
			delete(o.known, c)
		}
	}
}

// errSlow is why a watcher is dropped that has not read a list for too long. It may come again.
var errSlow = errors.New("the watcher reads too slowly: the list that it is sent is too old to be kept")

// leastBudget is the memory that lists may take together while slow watchers are sent them, in bytes. Where one list is
// large it is budgetFactor times the newest one, so that there is always some time to read it.
const (
	leastBudget  = 32 << 20
	budgetFactor = 4
)

// budget bounds the memory that all watchers together keep alive. Each keeps the initial snapshot that it is being
// sent. Many share one; slow ones that came at different times may each keep another one. Use newBudget.
type budget struct {
	least int64

	mu   sync.Mutex
	kept map[*initialSnapshot]*keeping
	made int
}

// keeping is who keeps an initial snapshot.
type keeping struct {
	made int // in which order initial snapshots came to be kept
	by   map[*stream]bool
}

func newBudget(least int64) *budget {
	return &budget{least: least, kept: map[*initialSnapshot]*keeping{}}
}

// keep notes that out is being sent o. Watchers with the oldest initial snapshots are dropped until what is kept is
// within the budget. What the newest one takes is not counted.
func (b *budget) keep(out *stream, o *initialSnapshot) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.kept[o] == nil {
		b.made++
		b.kept[o] = &keeping{made: b.made, by: map[*stream]bool{}}
	}
	b.kept[o].by[out] = true
	b.enforce(max(b.least, budgetFactor*o.size()))
}

// done notes that out has been sent o, or never will be.
func (b *budget) done(out *stream, o *initialSnapshot) {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.kept[o]
	if k == nil {
		return
	}
	if delete(k.by, out); len(k.by) == 0 {
		delete(b.kept, o)
	}
}

func (b *budget) enforce(limit int64) {
	for {
		var total int64
		var oldest, newest *initialSnapshot
		for o, k := range b.kept {
			total += o.size()
			if oldest == nil || k.made < b.kept[oldest].made {
				oldest = o
			}
			if newest == nil || k.made > b.kept[newest].made {
				newest = o
			}
		}
		if len(b.kept) < 2 || total-newest.size() <= limit {
			return
		}
		for out := range b.kept[oldest].by {
			out.drop(errSlow)
		}
		delete(b.kept, oldest)
	}
}

// idle says whether nothing is kept.
func (b *budget) idle() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.kept) == 0
}
