package memory

import (
	"cmp"
	"slices"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/dbstore"
)

// table is the documents of one kind with their indexes. A document in it is never changed, only replaced, so that
// readers may copy it after they have let go of the lock. Its methods want the database's lock held.
type table struct {
	docs     docSet
	ids      idList
	listed   map[string]struct{} // ids in the list; those of deleted documents among them
	groups   field
	sessions field
	revs     map[string]*revLog // by group
	expiring docSet
	owned    bool // sought by session and by revision
}

func newTable(info driver.KindInfo) *table {
	return &table{
		docs: docSet{}, listed: map[string]struct{}{}, groups: field{}, sessions: field{},
		revs: map[string]*revLog{}, expiring: docSet{}, owned: info.Indexed(driver.FieldSession),
	}
}

// put makes d, which the table keeps, the document of its id.
func (t *table) put(d *driver.Doc) {
	old := t.docs[d.ID]
	t.docs[d.ID] = d
	if _, ok := t.listed[d.ID]; !ok {
		t.listed[d.ID] = struct{}{}
		t.ids.add(d.ID)
	}
	if old != nil && old.Group != d.Group {
		t.groups.remove(old.Group, d.ID)
	}
	t.groups.put(d.Group, d)
	delete(t.expiring, d.ID)
	if d.Expires > 0 {
		t.expiring[d.ID] = d
	}
	if !t.owned {
		return
	}
	if old != nil && old.Session != d.Session {
		t.sessions.remove(old.Session, d.ID)
	}
	t.sessions.put(d.Session, d)
	t.logRev(d)
}

func (t *table) logRev(d *driver.Doc) {
	log := t.revs[d.Group]
	if log == nil {
		log = &revLog{}
		t.revs[d.Group] = log
	}
	log.add(d.Rev, d.ID)
	log.compact(len(t.groups[d.Group]), func(e revEntry) bool { return !t.current(d.Group, e) })
}

// current says whether e is the last write of its document. One that was deleted and created again at the same revision
// may be in the log twice; find takes each id once.
func (t *table) current(group string, e revEntry) bool {
	d := t.groups[group][e.id]
	return d != nil && d.Rev == e.rev
}

func (t *table) remove(id string) {
	old := t.docs[id]
	delete(t.docs, id)
	delete(t.expiring, id)
	t.groups.remove(old.Group, id)
	if t.owned {
		t.sessions.remove(old.Session, id)
	}
	if len(t.listed) > 2*len(t.docs)+64 {
		t.ids.drop(t.gone)
		for id := range t.listed {
			if t.gone(id) {
				delete(t.listed, id)
			}
		}
	}
}

func (t *table) gone(id string) bool { return t.docs[id] == nil }

// find returns the documents that match q, in its order and up to its limit, and how many match in all.
func (t *table) find(q driver.Query) (docs []*driver.Doc, total int) {
	keep := func(d *driver.Doc) bool {
		if d == nil || !dbstore.Matches(d, q) {
			return false
		}
		total++
		if !q.CountOnly {
			docs = append(docs, d)
		}
		return true
	}
	if set, ok := t.candidates(q); ok {
		for _, d := range set {
			keep(d)
		}
		slices.SortFunc(docs, func(a, b *driver.Doc) int { return cmp.Compare(a.ID, b.ID) })
		if q.Reverse {
			slices.Reverse(docs)
		}
		if q.Limit > 0 && len(docs) > q.Limit {
			docs = docs[:q.Limit]
		}
		return docs, total
	}
	ids := t.ids.between(q.From, q.To)
	for i := range ids {
		id := ids[i]
		if q.Reverse {
			id = ids[len(ids)-1-i]
		}
		if keep(t.docs[id]) && !q.CountOnly && q.Limit > 0 && len(docs) == q.Limit {
			break
		}
	}
	return docs, total
}

// candidates are the documents that the narrowest index offers; false when the table is better read in order of id.
func (t *table) candidates(q driver.Query) ([]*driver.Doc, bool) {
	var found []*driver.Doc
	if t.owned && len(q.Sessions) > 0 {
		seen := make(map[string]struct{}, len(q.Sessions))
		for _, s := range q.Sessions {
			if _, twice := seen[s]; twice {
				continue
			}
			seen[s] = struct{}{}
			found = appendSet(found, t.sessions[s])
		}
		return found, true
	}
	if t.owned && len(q.Others) > 0 {
		for session, set := range t.sessions {
			if !slices.Contains(q.Others, session) {
				found = appendSet(found, set)
			}
		}
		return found, true
	}
	if q.Expired > 0 {
		return appendSet(nil, t.expiring), true
	}
	if q.Group == "" {
		return nil, false
	}
	if t.owned && q.MinRev > 0 {
		return t.changedSince(q.Group, q.MinRev), true
	}
	if q.Limit > 0 {
		// A page of a large group is read in order; gathering and sorting the whole group for each page is not.
		return nil, false
	}
	return appendSet(nil, t.groups[q.Group]), true
}

func (t *table) changedSince(group string, rev int64) []*driver.Doc {
	log := t.revs[group]
	if log == nil {
		return nil
	}
	entries := log.since(rev)
	found := make([]*driver.Doc, 0, len(entries))
	seen := make(map[string]struct{}, len(entries))
	for _, e := range entries {
		if _, twice := seen[e.id]; twice || !t.current(group, e) {
			continue
		}
		seen[e.id] = struct{}{}
		found = append(found, t.groups[group][e.id])
	}
	return found
}

func appendSet(to []*driver.Doc, set docSet) []*driver.Doc {
	to = slices.Grow(to, len(set))
	for _, d := range set {
		to = append(to, d)
	}
	return to
}

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
type docSet map[string]*driver.Doc

// field is an index: sets of documents by the value of one of their fields.
type field map[string]docSet

func (f field) put(value string, d *driver.Doc) {
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
