package storetest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr/funcr"

	"github.com/shardctl/shardctl/pkg/store/driver"
)

// An Edit is what somebody does to a stored document with the tools of its database.
type Edit struct {
	// Name names the edit in errors. It is a part of the document's ID.
	Name string
	// Do edits the document, which is there.
	Do func(kind driver.Kind, id string) error
	// Readable says that it is a document all the same: a List returns it, and it can be replaced at the revision that
	// is found.
	Readable bool
	// Named says that a List names it as unreadable besides, because a part of it is.
	Named bool
}

// Edited tests a store whose documents somebody has edited. What is no document any more hides no other one, is named
// in replies and once in the log, counts as absent, and gives way to what is created in its place. A counter goes on,
// whatever it was set to.
type Edited struct {
	// Config opens an empty database.
	Config driver.Config
	// Locks and Counters are edits of one lock, and of one counter, each.
	Locks, Counters []Edit
	// Beside adds what was never a document, beside the locks, and returns the IDs by which replies name it. Nil:
	// everything in this database is a document.
	Beside func() (named []string)
}

// SQLEdits are the edits that every SQL database takes. update sets columns of the row of a document.
func SQLEdits(update func(kind driver.Kind, id, set string) error) (locks, counters []Edit) {
	edit := func(set string) Edit {
		return Edit{Name: set, Do: func(kind driver.Kind, id string) error { return update(kind, id, set) }}
	}
	for _, set := range []string{"rev = 0", "rev = -5", "rev = 9223372036854775807"} {
		locks = append(locks, edit(set))
	}
	for _, set := range []string{"suspended = 17", "body = 'no JSON'", "state = 'zombie', next = 'no one'"} {
		readable := edit(set)
		readable.Readable = true
		locks = append(locks, readable)
	}
	for _, set := range []string{
		"count = -7", "count = 9223372036854775807", "rev = 9007199254740992", "rev = 9007199254740993", "rev = -1",
		"rev = 9223372036854775807",
	} {
		counters = append(counters, edit(set))
	}
	return locks, counters
}

// Run runs the test.
func (e Edited) Run(t *testing.T) {
	t.Helper()
	t.Run("locks", e.testLocks)
	t.Run("counters", e.testCounters)
}

// edited are documents after the edits.
type edited struct {
	Edited
	b   *bench
	s   driver.Store
	mu  sync.Mutex
	log []string
	// IDs, in order
	readable, unreadable, named []string
}

func (e Edited) testLocks(t *testing.T) {
	d := &edited{Edited: e, b: &bench{t: t}}
	c := e.Config
	c.Logger = funcr.New(func(_, args string) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.log = append(d.log, args)
	}, funcr.Options{})
	d.s = Open(t, c)
	d.make(t)
	for _, limit := range []int{0, 1, 3, 100, 0} {
		d.wantListed(t, limit)
	}
	for _, id := range d.unreadable {
		wantAbsent(t, d.s, driver.KindLock, id)
	}
	d.wantLogged(t)
	for _, id := range d.unreadable { // it gives way to a document, once
		first := d.b.put(lock(id), 0)
		must(t, d.s, first)
		must(t, d.s, first) // the very same again
		if out := apply(t, d.s, d.b.put(lock(id), 0)); out.Status != driver.Refused {
			t.Errorf("%s: a second creation: %s", id, describe(out))
		}
		next := d.b.put(lock(id), first.Doc.Rev)
		must(t, d.s, next)
		wantStored(t, d.s, next.Doc)
	}
	for _, id := range d.readable {
		found := read(t, d.s, driver.KindLock, id)
		if found == nil {
			t.Errorf("%s is listed, and absent", id)
			continue
		}
		must(t, d.s, d.b.put(lock(id), found.Rev))
	}
}

// make writes documents, and edits all but one.
func (d *edited) make(t *testing.T) {
	t.Helper()
	d.readable = []string{"g/good"}
	must(t, d.s, d.b.put(lock("g/good"), 0))
	for _, edit := range d.Locks {
		id := "g/" + strings.ReplaceAll(edit.Name, "/", "-")
		must(t, d.s, d.b.put(lock(id), 0))
		if err := edit.Do(driver.KindLock, id); err != nil {
			t.Fatalf("%s: %v", edit.Name, err)
		}
		if edit.Readable {
			d.readable = append(d.readable, id)
		} else {
			d.unreadable = append(d.unreadable, id)
		}
		if edit.Named || !edit.Readable {
			d.named = append(d.named, id)
		}
	}
	if d.Beside != nil {
		d.named = append(d.named, d.Beside()...)
	}
	slices.Sort(d.readable)
	slices.Sort(d.named)
}

// wantListed lists all, in pages of so many; 0 means one.
func (d *edited) wantListed(t *testing.T, limit int) {
	t.Helper()
	var listed, met []string
	for q := (driver.Query{Limit: limit}); ; {
		page, err := d.s.List(t.Context(), driver.KindLock, q)
		if err != nil {
			t.Fatalf("list, %d a page: %v", limit, err)
		}
		listed = append(listed, ids(page.Docs)...)
		var inReply []string
		for _, u := range page.Unreadable {
			if slices.Contains(inReply, u.ID) {
				t.Errorf("%d a page: a reply names %s twice", limit, u.ID)
			}
			inReply = append(inReply, u.ID)
		}
		met = append(met, inReply...)
		if limit == 0 || len(page.Docs) < limit {
			break
		}
		q = q.After(listed[len(listed)-1])
	}
	slices.Sort(met)
	if met = slices.Compact(met); !slices.Equal(listed, d.readable) || !slices.Equal(met, d.named) {
		t.Fatalf("%d a page: listed\n%q, want\n%q; unreadable\n%q, want\n%q", limit, listed, d.readable, met, d.named)
	}
}

// wantLogged wants one line for each document of which something is unreadable.
func (d *edited) wantLogged(t *testing.T) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.log) != len(d.named) {
		t.Errorf("%d lines of log, want one for each of %q:\n%s", len(d.log), d.named, strings.Join(d.log, "\n"))
	}
}

func (e Edited) testCounters(t *testing.T) {
	s := Open(t, e.Config)
	for i, edit := range e.Counters {
		id := fmt.Sprint("counter-", i)
		change := increment(id)
		change.Doc.Rev = 7
		must(t, s, change)
		if err := edit.Do(driver.KindGroup, id); err != nil {
			t.Fatalf("%s: %v", edit.Name, err)
		}
		last := int64(-1)
		for range 3 { // alone and in a batch, and never found as it was
			must(t, s, change, increment("other"))
			must(t, s, change)
			found := read(t, s, driver.KindGroup, id)
			if found == nil || found.Count < 2 || found.Count <= last || found.Count >= driver.MaxRev || found.Rev < 7 {
				t.Fatalf("%s: found %+v after count %d", edit.Name, found, last)
			}
			last = found.Count
		}
		if err := driver.CheckFound(*read(t, s, driver.KindGroup, id)); err != nil {
			t.Errorf("%s: %v", edit.Name, err)
		}
	}
}
