package storetest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/shardctl/shardctl/pkg/store/driver"
)

// list lists until as many documents match as wanted: a List may be stale.
func (b *bench) list(t *testing.T, s driver.Store, kind driver.Kind, q driver.Query, want int) []driver.Doc {
	t.Helper()
	var docs []driver.Doc
	b.eventually(t, func() string {
		res, err := s.List(t.Context(), kind, q)
		if err != nil {
			return fmt.Sprintf("list %s %+v: %v", kind, q, err)
		}
		docs = res.Docs
		if len(docs) != want {
			return fmt.Sprintf("list %s %+v: %d documents, want %d", kind, q, len(docs), want)
		}
		return ""
	})
	return docs
}

// testQuery compares the store with filtering in Go, over every field and many combinations of them.
func testQuery(b *bench) {
	t := b.t
	s, reader := b.open(t), b.open(t)
	var docs []driver.Doc
	for i := range 120 {
		d := driver.Doc{
			Kind: driver.KindLock, ID: fmt.Sprintf("%s/k%03d", []string{"g", "h", "i"}[i%3], i),
			Group:   []string{"g", "h", "i"}[i%3],
			Session: []string{"", "s1", "s2", "s3"}[i/3%4], State: []string{"", "live", "draining", "dead"}[i%4],
			Suspended: i%5 == 0, Body: fmt.Appendf(nil, `{"i":%d}`, i),
		}
		c := b.put(d, 0)
		c.Doc.Rev = int64(i%40 + 1)
		must(t, s, c)
		docs = append(docs, c.Doc)
	}
	must(t, s, b.put(driver.Doc{Kind: driver.KindValue, ID: "g/k000", Group: "g"}, 0)) // of another kind
	slices.SortFunc(docs, func(x, y driver.Doc) int { return strings.Compare(x.ID, y.ID) })
	for _, kind := range []driver.Kind{driver.KindLock, driver.KindSession, driver.KindEvent} {
		if kind != driver.KindLock {
			for i := range docs {
				docs[i].Kind = kind
				must(t, s, driver.Change{Doc: docs[i]})
			}
		}
		b.list(t, reader, kind, driver.Query{}, len(docs))
		for _, q := range queries() {
			b.wantQuery(t, reader, kind, q, docs)
		}
	}
}

func queries() []driver.Query {
	base := []driver.Query{
		{},
		{Group: "g"},
		{Group: "absent"},
		{Sessions: []string{""}},
		{Sessions: []string{"s1", "", "s1", "absent"}},
		{Sessions: []string{"absent"}},
		{Others: []string{"s1"}},
		{Others: []string{"", "s2", "absent"}, Unsuspended: true},
		{Others: []string{"s1", "s2", "s3"}, Group: "g"},
		{States: []string{"live", "dead"}},
		{States: []string{""}},
		{MinRev: 20},
		{MinRev: 41},
		{Unsuspended: true},
		{From: "h/k010"},
		{To: "h/k010"},
		{From: "g/k030", To: "h/k090"},
		{From: "h", To: "g"},
		{Group: "h", MinRev: 15},
		{Group: "h", MinRev: 15, Unsuspended: true},
		{Group: "g", Sessions: []string{"s2", ""}},
		{Sessions: []string{"", "s3"}, Unsuspended: true},
		{Group: "i", From: "i/k050", Unsuspended: true, States: []string{"live", ""}},
		{
			Group: "g", Sessions: []string{"s1", "s2"}, States: []string{"dead"}, MinRev: 3, Unsuspended: true,
			From: "g/k01", To: "g/k1",
		},
	}
	var all []driver.Query
	for _, q := range base {
		for _, limit := range []int{0, 1, 7, 1000} {
			for _, reverse := range []bool{false, true} {
				q.Limit, q.Reverse = limit, reverse
				all = append(all, q)
			}
		}
		q.Limit, q.Reverse = 5, true
		q.NoBody = true
		all = append(all, q)
		q.NoBody, q.CountOnly = false, true
		all = append(all, q)
		q.Limit, q.Reverse = 0, false
		all = append(all, q)
	}
	return all
}

func (b *bench) wantQuery(t *testing.T, s driver.Store, kind driver.Kind, q driver.Query, docs []driver.Doc) {
	t.Helper()
	res, err := s.List(t.Context(), kind, q)
	if err != nil {
		t.Fatalf("list %s %+v: %v", kind, q, err)
	}
	want := filtered(docs, q)
	if q.CountOnly {
		if res.Total != int64(len(want)) || len(res.Docs) != 0 {
			t.Fatalf(
				"count %s %+v: %d and %d documents, want %d and none", kind, q, res.Total, len(res.Docs), len(want),
			)
		}
		return
	}
	if !slices.Equal(ids(res.Docs), ids(want)) {
		t.Fatalf("list %s %+v:\n got %v\nwant %v", kind, q, ids(res.Docs), ids(want))
	}
	for i := range want {
		if q.NoBody {
			want[i].Body = nil
		}
		wantDoc(t, res.Docs[i], want[i])
	}
}

// filtered is what a query finds among docs, which are in order of id. A count has no limit.
func filtered(docs []driver.Doc, q driver.Query) []driver.Doc {
	var found []driver.Doc
	for _, d := range docs {
		if (q.Group == "" || d.Group == q.Group) && (len(q.Sessions) == 0 || slices.Contains(q.Sessions, d.Session)) &&
			(len(q.Others) == 0 || !slices.Contains(q.Others, d.Session)) &&
			(len(q.States) == 0 || slices.Contains(q.States, d.State)) && d.Rev >= q.MinRev &&
			(!q.Unsuspended || !d.Suspended) &&
			d.ID >= q.From && (q.To == "" || d.ID < q.To) {
			found = append(found, d)
		}
	}
	if q.Reverse {
		slices.Reverse(found)
	}
	if q.Limit > 0 && len(found) > q.Limit && !q.CountOnly {
		found = found[:q.Limit]
	}
	return found
}

// While documents change hands, a List shows each of them once at most, as it was at some time.
func testQueryWhileWriting(b *bench) {
	t := b.t
	const n = 40
	s, reader := b.open(t), b.open(t)
	var creates []driver.Change
	for i := range n {
		d := lock(fmt.Sprintf("g/%03d", i))
		d.Session = "s0"
		creates = append(creates, b.put(d, 0))
	}
	must(t, s, creates...)
	b.list(t, reader, driver.KindLock, driver.Query{}, n)

	var wg sync.WaitGroup
	done := make(chan struct{})
	wg.Go(func() {
		defer close(done)
		for rev := range int64(10) {
			var changes []driver.Change
			for i := range n {
				d := lock(fmt.Sprintf("g/%03d", i))
				d.Session = fmt.Sprint("s", rev+1)
				changes = append(changes, b.put(d, rev+1))
			}
			if _, err := s.Apply(t.Context(), changes...); err != nil {
				t.Errorf("write: %v", err)
				return
			}
		}
	})
	for writing := true; writing; {
		select {
		case <-done:
			writing = false
		default:
		}
		res, err := reader.List(t.Context(), driver.KindLock, driver.Query{Group: "g"})
		if err != nil {
			t.Errorf("list: %v", err)
			break
		}
		seen := sortedIDs(res.Docs)
		if len(slices.Compact(seen)) != n {
			t.Errorf("list while writing: %d documents, %v; want each of %d once", len(res.Docs), seen, n)
			break
		}
		for _, d := range res.Docs {
			if d.Session != fmt.Sprint("s", d.Rev-1) {
				t.Errorf("%s: session %s at revision %d", d.ID, d.Session, d.Rev)
			}
		}
	}
	wg.Wait()
}

func testPaging(b *bench) {
	t := b.t
	n, page := b.db.Many, b.db.Many/10-23
	s, reader := b.open(t), b.open(t)
	want := make([]string, 0, n)
	changes := make([]driver.Change, 0, n)
	for i := range n {
		group := []string{"g", "h"}[i%2]
		id := fmt.Sprintf("%s/%05d", group, (i*7919)%n)
		want = append(want, id)
		changes = append(changes, b.put(driver.Doc{Kind: driver.KindLock, ID: id, Group: group}, 0))
	}
	slices.Sort(want)
	for part := range slices.Chunk(changes, 2000) {
		must(t, s, part...)
	}
	b.eventually(t, func() string {
		res, err := reader.List(t.Context(), driver.KindLock, driver.Query{CountOnly: true})
		if err != nil || res.Total != int64(n) {
			return fmt.Sprintf("count: %d, %v; want %d", res.Total, err, n)
		}
		return ""
	})
	wantPages(t, reader, driver.KindLock, driver.Query{Limit: page}, want)
	wantPages(t, reader, driver.KindLock, driver.Query{Limit: page, Group: "h"}, want[n/2:])
	backwards := slices.Clone(want)
	slices.Reverse(backwards)
	wantPages(t, reader, driver.KindLock, driver.Query{Limit: page, Reverse: true}, backwards)
	if docs := b.list(t, reader, driver.KindLock, driver.Query{}, n); !slices.Equal(ids(docs), want) {
		t.Fatal("a list of all is not in order")
	}
}

// malformedCount is how many documents [testPagingOverMalformed] makes, of which about half are spoiled.
const malformedCount = 60

// A page is short only where nothing follows, also where documents in it are none. They are at the ends of pages, and
// fill whole ones. Each is named, and a creation takes its place.
func testPagingOverMalformed(b *bench) {
	t := b.t
	if b.db.Spoil == nil {
		t.Skip("no document can be edited out of band")
	}
	s, reader := b.open(t), b.open(t)
	for kind, queries := range map[driver.Kind]map[string]driver.Query{
		driver.KindLock: {
			"of a group": {Group: "g"}, "of a session": {Sessions: []string{"s"}},
			"swept": {Others: []string{"live", "me"}, Unsuspended: true},
		},
		driver.KindSession: {"alive": {States: []string{driver.StateLive, "draining"}, From: "g/"}},
	} {
		usable, spoiled := b.spoilSome(t, s, kind)
		b.eventually(t, func() string {
			res, err := reader.List(t.Context(), kind, driver.Query{})
			if err != nil || !slices.Equal(ids(res.Docs), usable) || !slices.Equal(named(t, res, kind), spoiled) {
				return fmt.Sprintf(
					"a list of all of kind %s: %q, %v, unreadable %q; want %q and %q", kind, ids(res.Docs), err,
					named(t, res, kind), usable, spoiled,
				)
			}
			return ""
		})
		queries["all"] = driver.Query{}
		for name, q := range queries {
			backwards := slices.Clone(usable)
			slices.Reverse(backwards)
			for _, q.Limit = range []int{1, 4, malformedCount} {
				t.Logf("%s %s, %d a page", kind, name, q.Limit)
				met := wantPages(t, reader, kind, q, usable)
				if name == "all" && !slices.Equal(met, spoiled) {
					t.Fatalf("pages name %q as unreadable, want %q", met, spoiled)
				}
				reversed := q
				reversed.Reverse = true
				wantPages(t, reader, kind, reversed, backwards)
			}
		}
		again := b.put(driver.Doc{Kind: kind, ID: spoiled[0], Group: "g"}, 0)
		must(t, s, again)
		wantStored(t, reader, again.Doc)
		b.eventually(t, func() string {
			res, err := reader.List(t.Context(), kind, driver.Query{})
			if got := named(t, res, kind); err != nil || !slices.Equal(got, spoiled[1:]) {
				return fmt.Sprintf("unreadable are %q, %v; want %q", got, err, spoiled[1:])
			}
			return ""
		})
	}
}

// spoilSome makes documents and spoils some of them. Both results are in order.
func (b *bench) spoilSome(t *testing.T, s driver.Store, kind driver.Kind) (usable, spoiled []string) {
	t.Helper()
	changes := make([]driver.Change, malformedCount)
	for i := range changes {
		d := driver.Doc{Kind: kind, ID: fmt.Sprintf("g/%02d", i), Group: "g", Session: "s", State: driver.StateLive}
		changes[i] = b.put(d, 0)
	}
	must(t, s, changes...)
	for i, c := range changes {
		if i%5 != 3 && (i < 8 || i >= 17) && i != malformedCount-1 {
			usable = append(usable, c.Doc.ID)
			continue
		}
		spoiled = append(spoiled, c.Doc.ID)
		if err := b.db.Spoil(t.Context(), kind, c.Doc.ID); err != nil {
			t.Fatal(err)
		}
	}
	return usable, spoiled
}

// named are the IDs of what a reply says is unreadable, in order and each once.
func named(t *testing.T, r driver.Reply, kind driver.Kind) []string {
	t.Helper()
	var all []string
	for _, u := range r.Unreadable {
		if u.Kind != kind || u.Err == nil {
			t.Fatalf("unreadable is %s %q: %v; want one of kind %s, and why", u.Kind, u.ID, u.Err, kind)
		}
		all = append(all, u.ID)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// wantPages reads page after page, each from where the last one ended. It returns what they name as unreadable.
func wantPages(t *testing.T, s driver.Store, kind driver.Kind, q driver.Query, want []string) (unreadable []string) {
	t.Helper()
	var got []string
	for {
		res, err := s.List(t.Context(), kind, q)
		if err != nil {
			t.Fatalf("page after %d: %v", len(got), err)
		}
		got = append(got, ids(res.Docs)...)
		unreadable = append(unreadable, named(t, res, kind)...)
		if len(res.Docs) < q.Limit {
			break
		}
		q = q.After(got[len(got)-1])
	}
	if !slices.Equal(got, want) {
		t.Fatalf("pages of %+v: %d ids, want %d in order", q, len(got), len(want))
	}
	slices.Sort(unreadable)
	return slices.Compact(unreadable)
}

func ids(docs []driver.Doc) []string {
	out := make([]string, len(docs))
	for i, d := range docs {
		out[i] = d.ID
	}
	return out
}

func sortedIDs(docs []driver.Doc) []string { return slices.Sorted(slices.Values(ids(docs))) }

func manyIDs(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprint("absent/", i)
	}
	return out
}
