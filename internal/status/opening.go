package status

import (
	"cmp"
	"context"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// opening is what a watch begins with: a list as it was at a moment, made once for all with the same conditions.
type opening struct {
	text  *packed
	next  int             // the number of the first change after it
	stale bool            // it says that the store is unreachable
	sent  map[string]bool // ids of events in it that may come again as changes; nil: there are none

	made int // in which order they were made
}

func (o *opening) size() int64 { return int64(len(o.text.data)) }

// conditions are what an opening depends on.
type conditions struct {
	course any // from the first watcher of a list to its last
	scope  string
	limit  int // 0: none
	hidden bool
}

// all says whether nothing is left out: most watchers ask so, and share one opening.
func (c conditions) all() bool { return strings.HasSuffix(c.scope, "?") }

// openingsKept is how many bytes of openings are kept for watchers that come later.
const openingsKept = 8 << 20

// openings makes them. A thousand watchers that come back at once, as after a restart, cost one list of each kind. Use
// newOpenings.
type openings struct {
	// One for each that is made at the moment. Many filters, each another one, do not hold up those who have none.
	slots, filtered chan struct{}

	mu    sync.Mutex
	known map[conditions]*opening
	made  int
}

func newOpenings(atOnce int) *openings {
	return &openings{
		slots: make(chan struct{}, atOnce), filtered: make(chan struct{}, atOnce), known: map[conditions]*opening{},
	}
}

// halfTheProcessors leaves the other half to the rest, heartbeats among it.
func halfTheProcessors() int { return max(1, runtime.GOMAXPROCS(0)/2) }

// get is an opening that may be used, or a new one. It waits while others are made. The error is of ctx or of fresh.
func (o *openings) get(
	ctx context.Context, c conditions, usable func(*opening) bool, fresh func() (*opening, error),
) (*opening, error) {
	if found := o.find(c, usable); found != nil {
		return found, nil
	}
	slots := o.slots
	if !c.all() {
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

func (o *openings) find(c conditions, usable func(*opening) bool) *opening {
	o.mu.Lock()
	defer o.mu.Unlock()
	if found := o.known[c]; found != nil && usable(found) {
		return found
	}
	return nil
}

// keep adds an opening, and drops the oldest of too many, those of filters first.
func (o *openings) keep(c conditions, made *opening) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.made++
	made.made = o.made
	o.known[c] = made
	for o.size() > openingsKept && len(o.known) > 1 {
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
func (o *openings) size() (total int64) {
	for c, known := range o.known {
		total += known.size() + int64(len(c.scope))
	}
	return total
}

// forget drops those of a list that is not watched any more.
func (o *openings) forget(course any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for c := range o.known {
		if c.course == course {
			delete(o.known, c)
		}
	}
}
