package memory

import (
	"cmp"
	"slices"

	"github.com/shardctl/shardctl/pkg/store"
)

// idList is the ids of a table in order. Ids are appended as they come and sorted when somebody asks for order. So
// filling a table of n documents costs n log n and not n².
type idList struct {
	sorted []string
	fresh  []string
}

func (l *idList) add(id string) { l.fresh = append(l.fresh, id) }

// ordered returns the ids in order; the slice is valid until the next call of any method.
func (l *idList) ordered() []string {
	if len(l.fresh) == 0 {
		return l.sorted
	}
	slices.Sort(l.fresh)
	merged := make([]string, 0, len(l.sorted)+len(l.fresh))
	old, fresh := l.sorted, l.fresh
	for len(old) > 0 && len(fresh) > 0 {
		if old[0] < fresh[0] {
			merged, old = append(merged, old[0]), old[1:]
		} else {
			merged, fresh = append(merged, fresh[0]), fresh[1:]
		}
	}
	l.sorted = append(append(merged, old...), fresh...)
	l.fresh = l.fresh[:0]
	return l.sorted
}

// between returns the ids from <= id < to in order; an empty to is no bound.
func (l *idList) between(from, to string) []string {
	ids := l.ordered()
	first, _ := slices.BinarySearch(ids, from)
	last := len(ids)
	if to != "" {
		last, _ = slices.BinarySearch(ids, to)
	}
	return ids[first:max(first, last)]
}

// drop removes the ids for which gone is true.
func (l *idList) drop(gone func(id string) bool) {
	l.ordered()
	l.sorted = slices.DeleteFunc(l.sorted, gone)
}

// revLog is the writes of one group's documents in order of revision. An entry is stale once its document has been
// written again; readers skip those, and the log is rebuilt when most of it is stale.
type revLog struct {
	entries []revEntry
}

type revEntry struct {
	rev int64
	id  string
}

// add keeps the order. Revisions of locks follow the clock, so the place is nearly always at the end.
func (l *revLog) add(rev int64, id string) {
	if n := len(l.entries); n == 0 || l.entries[n-1].rev <= rev {
		l.entries = append(l.entries, revEntry{rev, id})
		return
	}
	l.entries = slices.Insert(l.entries, l.search(rev+1), revEntry{rev, id})
}

// since returns the entries with at least this revision, stale ones among them.
func (l *revLog) since(rev int64) []revEntry { return l.entries[l.search(rev):] }

func (l *revLog) search(rev int64) int {
	i, _ := slices.BinarySearchFunc(l.entries, rev, func(e revEntry, rev int64) int { return cmp.Compare(e.rev, rev) })
	return i
}

// compact drops what is stale once it is more than half of a log that should hold live entries.
func (l *revLog) compact(live int, stale func(revEntry) bool) {
	if len(l.entries) > 2*live+64 {
		l.entries = slices.DeleteFunc(l.entries, stale)
	}
}

// docSet is documents by id that share a field's value.
type docSet map[string]*store.Doc

// field is an index: sets of documents by the value of one of their fields.
type field map[string]docSet

func (f field) put(value string, d *store.Doc) {
	set := f[value]
	if set == nil {
		set = docSet{}
		f[value] = set
	}
	set[d.ID] = d
}

func (f field) remove(value, id string) {
	delete(f[value], id)
	if len(f[value]) == 0 {
		delete(f, value)
	}
}
