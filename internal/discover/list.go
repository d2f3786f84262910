package discover

import (
	"slices"
	"time"

	"github.com/shardctl/shardctl/internal/published"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/store"
)

// Entry is one thing in a list.
type Entry struct {
	Found
	// Gone is when a look first missed it, by the store's clock in Unix ms; 0: the last look found it.
	Gone int64 `json:"gone,omitempty"`
}

// Cleaned implements [published.Part].
func (e Entry) Cleaned(c *record.Cleaner) Entry {
	if err := e.Validate(); err != nil {
		c.Bad("entry", "%w", err)
	}
	c.Moment("gone", &e.Gone)
	return e
}

// same says whether nothing of two differs.
func (e Entry) same(other Entry) bool { return e.Gone == other.Gone && e.Same(other.Found) }

// Rules say how a list follows what is found.
type Rules struct {
	Grace time.Duration // how long what has vanished stays
	Limit int           // most entries of the list
}

// Next is the list after a look at now, the store's clock in Unix ms. found is in order, and so is the result. Known
// entries stay also beyond the limit; new ones beyond it are left out and counted.
func (r Rules) Next(before []Entry, found []Found, now int64) (after []Entry, leftOut int) {
	before = inOrder(before)
	var added []Entry
	for len(before) > 0 || len(found) > 0 {
		switch order := compareFirst(before, found); {
		case order < 0: // not found
			if e, stays := r.missed(before[0], now); stays {
				after = append(after, e)
			}
			before = before[1:]
		case order > 0:
			added = append(added, Entry{Found: found[0]})
			found = found[1:]
		default:
			after = append(after, Entry{Found: found[0]})
			before, found = before[1:], found[1:]
		}
	}
	free := min(len(added), max(0, r.Limit-len(after)))
	after = append(after, added[:free]...)
	slices.SortFunc(after, func(a, b Entry) int { return Compare(a.Found, b.Found) })
	return after, len(added) - free
}

// inOrder is a list in order, each once: it may have been edited.
func inOrder(list []Entry) []Entry {
	compare := func(a, b Entry) int { return Compare(a.Found, b.Found) }
	list = slices.Clone(list)
	slices.SortStableFunc(list, compare)
	return slices.CompactFunc(list, func(a, b Entry) bool { return compare(a, b) == 0 })
}

// compareFirst orders the first of both; what is not there comes last.
func compareFirst(before []Entry, found []Found) int {
	switch {
	case len(found) == 0:
		return -1
	case len(before) == 0:
		return 1
	default:
		return Compare(before[0].Found, found[0])
	}
}

// missed is an entry that a look did not find, and whether it stays.
func (r Rules) missed(e Entry, now int64) (Entry, bool) {
	if e.Gone == 0 || e.Gone > now { // the clock may have been set back
		e.Gone = now
	}
	return e, now-e.Gone < r.Grace.Milliseconds()
}

// differs says whether a list is another than the one before.
func differs(b before, entries []Entry) bool {
	return b.Broken != nil || b.Revision == 0 || !slices.EqualFunc(b.Entries, entries, Entry.same)
}

// Vanished counts those that the last look did not find.
func Vanished(entries []Entry) int {
	n := 0
	for _, e := range entries {
		if e.Gone != 0 {
			n++
		}
	}
	return n
}

func placeOf(group string) published.Place {
	return published.Place{Space: record.GroupDiscovery, Group: group}
}

// Key is the lock under which a group is looked at.
func Key(group string) record.Key { return placeOf(group).Key() }

// Published is a list as it was read.
type Published = published.List[Entry, Status]

// Reader reads the list of one group again and again. It is for one goroutine.
type Reader = published.Reader[Entry, Status]

// NewReader makes a reader that has read nothing.
func NewReader(db store.Store, group string) *Reader {
	return published.NewReader[Entry, Status](db, placeOf(group))
}

// writer writes the list of one group under one token of its lock.
type writer = published.Writer[Entry, Status]

func newWriter(db store.Store, group string, token int64) *writer {
	return published.NewWriter[Entry, Status](db, placeOf(group), token)
}

// before is what a look begins with.
type before = published.Before[Entry, Status]

// Status says how looking goes. Times are the store's clock in Unix ms.
type Status struct {
	Lister  string `json:"lister"`            // who is asked, as http
	By      string `json:"by"`                // the instance that looked last
	At      int64  `json:"at,omitempty"`      // when a look last succeeded; 0: never
	Found   int    `json:"found,omitempty"`   // how many that look found
	LeftOut int    `json:"leftOut,omitempty"` // of these, beyond the limit
	Error   string `json:"error,omitempty"`   // why the last look failed; empty: it succeeded
	Since   int64  `json:"since,omitempty"`   // when looks began to fail
}

// Cleaned implements [published.Part].
func (s Status) Cleaned(c *record.Cleaner) Status {
	c.Text("lister", &s.Lister)
	c.Text("by", &s.By)
	c.Moment("at", &s.At)
	c.Count("found", &s.Found, MaxFound)
	c.Count("leftOut", &s.LeftOut, MaxFound)
	c.Text("error", &s.Error)
	c.Moment("since", &s.Since)
	return s
}

// news says whether others should hear soon of what has changed since before.
func (s Status) news(before Status) bool {
	return s.Error != before.Error || s.LeftOut != before.LeftOut || s.At != 0 && before.At == 0
}
