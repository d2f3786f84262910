// Package storetest is the one suite that every [driver.Store] passes: what the interface promises, as tests.
//
// An adapter's test calls [Run] with a function that makes an empty [Database] for each test. The suite opens as many
// independent clients of it as it needs, as several processes would.
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) storetest.Database {
//			path := filepath.Join(t.TempDir(), "store.db")
//			return storetest.Database{
//				Open: func(ctx context.Context) (driver.Store, error) {
//					return sqlite.Open(ctx, path, sqlite.Options{})
//				},
//			}
//		})
//	}
//
// The suite knows that List may be stale and that notes may be late: it looks again until [Database.Patience] is over.
// But a client's own write or Read bounds how stale its next List is.
// All else is expected at once.
//
// What Run cannot know of a store is tested by suites of their own, each with a few hooks: [URIs] needs no server;
// [TLS], [Rights], [Faults], [Edited] and [HeldTables] need one that the test may configure, hurt, and write to.
package storetest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// Database is one empty database of the adapter under test.
type Database struct {
	// Open makes one more client, sharing nothing with the others but the database. It is called by several goroutines
	// at once, also on a database that was not set up yet. The suite closes the store.
	Open func(ctx context.Context) (driver.Store, error)
	// ShiftSchema makes the database look as if a newer (by > 0) or an older version of the program had set it up. Nil:
	// the store has no schema.
	ShiftSchema func(ctx context.Context, by int) error
	// Forget makes the database look as if it had been set up before there was a kind. Nil: set-up makes nothing for a
	// kind.
	Forget func(ctx context.Context, kind driver.Kind) error
	// Spoil makes a document one that is none (see [driver.CheckFound]), by an edit out of band. Nil: a page without
	// such documents is all that is tested.
	Spoil func(ctx context.Context, kind driver.Kind, id string) error
	// Examined says how many documents, or entries of an index, the database looks at for a List. Nil: it is not
	// known.
	Examined func(ctx context.Context, kind driver.Kind, q driver.Query) (int64, error)
	// Quiet says that a watch notifies of nothing but what its interest names, by each change once. Otherwise it is not
	// tested that heartbeats, claims, and what concerns others wake no one.
	Quiet bool
	// Neighbour opens a client of another cluster in the same database. Nil: that watches are not woken by other
	// clusters is not tested.
	Neighbour func(ctx context.Context) (driver.Store, error)
	// Many is how many documents are paged over. Zero means 10,000.
	Many int
	// CannotWatch says that Watch returns [driver.ErrCannotWatch].
	CannotWatch bool
	// CountsMore says that a counter may rise by more than is acknowledged, as on a quorum. Each of its servers may
	// count an increment, and a write that was overtaken may have been written: it is sent again by the store itself.
	// Of increments the suite looks for the least alone.
	CountsMore bool
	// Patience is how long a List may be stale and a notification late. Zero means 30 s.
	Patience time.Duration
}

// Neighbour opens a client of another cluster in the database of a URI, for [Database.Neighbour].
func Neighbour(uri string) func(ctx context.Context) (driver.Store, error) {
	return func(ctx context.Context) (driver.Store, error) {
		return store.Open(ctx, patiently(driver.Config{URI: uri, Cluster: "neighbour"}))
	}
}

type part struct {
	name string
	test func(*bench)
}

// parts are all of the suite.
func parts() []part {
	return []part{
		{"create", testCreate},
		{"replace", testReplace},
		{"delete", testDelete},
		{"deleted and created again", testRecreated},
		{"fields", testFields},
		{"body", testBody},
		{"ids", testIDs},
		{"read", testRead},
		{"now", testNow},
		{"wall", testWall},
		{"repeated", testRepeated},
		{"overtaken", testOvertaken},
		{"batch", testBatch},
		{"batch of outcomes", testBatchOutcomes},
		{"racing writers", testRacingWriters},
		{"racing creators", testRacingCreators},
		{"counter", testCounter},
		{"linearizable", testLinearizable},
		{"increment", testIncrement},
		{"increment and put", testIncrementAndPut},
		{"increment carries a revision", testIncrementCarries},
		{"ended context", testEndedContext},
		{"unknown outcomes", testUnknownOutcomes},
		{"query", testQuery},
		{"query while writing", testQueryWhileWriting},
		{"list after own call", testListAfterOwnCall},
		{"paging", testPaging},
		{"paging over malformed documents", testPagingOverMalformed},
		{"watch", testWatch},
		{"watch many", testWatchMany},
		{"watch ends", testWatchEnds},
		{"quiet watch", testQuietWatch},
		{"interests", testInterests},
		{"keys of interest", testKeysOfInterest},
		{"expiry", testExpiry},
		{"lineage", testLineage},
		{"cost", testCost},
		{"too large", testTooLarge},
		{"malformed", testMalformed},
		{"set-up at once", testSetUpAtOnce},
		{"other schema", testOtherSchema},
		{"newer kind", testNewerKind},
		{"closed", testClosed},
	}
}

// Run runs the suite as subtests and calls fresh for each of them: all of it, or the parts named in only. These are for
// an adapter that has passed all of it already, and meets a database that differs in little.
func Run(t *testing.T, fresh func(t *testing.T) Database, only ...string) {
	t.Helper()
	all := parts()
	for _, name := range only {
		if !slices.ContainsFunc(all, func(p part) bool { return p.name == name }) {
			t.Fatalf("the suite has no part %q", name)
		}
	}
	for _, p := range all {
		if len(only) > 0 && !slices.Contains(only, p.name) {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			db := fresh(t)
			if db.Patience == 0 {
				db.Patience = patience
			}
			db.Many = cmp.Or(db.Many, 10_000)
			p.test(&bench{t: t, db: db})
		})
	}
}

// bench is what a test works on: the database and writer IDs that are never used twice.
type bench struct {
	t   *testing.T
	db  Database
	seq atomic.Int64
}

// open makes a client that ends with the test.
func (b *bench) open(t *testing.T) driver.Store {
	t.Helper()
	s, err := b.db.Open(t.Context())
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() {
		// The test's context has ended by now.
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

// writerID is one that was not used before.
func (b *bench) writerID() driver.WriterID {
	return driver.WriterID{Session: "writer", Seq: b.seq.Add(1)}
}

// put is a change of d from ifRev to the revision after, with a fresh writer ID.
func (b *bench) put(d driver.Doc, ifRev int64) driver.Change {
	d.Rev, d.WriterID = ifRev+1, b.writerID()
	return driver.Change{Op: driver.Put, IfRev: ifRev, Doc: d}
}

// apply performs one change.
func apply(t *testing.T, s driver.Store, c driver.Change) driver.Outcome {
	t.Helper()
	return applyIn(t.Context(), t, s, c)
}

// applyIn performs one change within a context.
func applyIn(ctx context.Context, t *testing.T, s driver.Store, c driver.Change) driver.Outcome {
	t.Helper()
	outs, err := s.Apply(ctx, c)
	if err != nil {
		t.Fatalf("apply %s %s: %v", c.Doc.Kind, c.Doc.ID, err)
	}
	if len(outs) != 1 {
		t.Fatalf("apply of one change: %d outcomes", len(outs))
	}
	return outs[0]
}

// must performs changes that have to be applied.
func must(t *testing.T, s driver.Store, changes ...driver.Change) {
	t.Helper()
	outs, err := s.Apply(t.Context(), changes...)
	if err != nil || len(outs) != len(changes) {
		t.Fatalf("apply %d changes: %d outcomes, error %v", len(changes), len(outs), err)
	}
	for i, c := range changes {
		if outs[i].Status != driver.Applied {
			t.Fatalf("change %d, %s %s: %s", i, c.Doc.Kind, c.Doc.ID, describe(outs[i]))
		}
	}
}

// wantFound checks an outcome that did not apply, and the document that came with it.
func wantFound(t *testing.T, got driver.Outcome, status driver.Status, found *driver.Doc) {
	t.Helper()
	if got.Status != status {
		t.Fatalf("%s; want %s", describe(got), statusName(status))
	}
	if found == nil {
		if got.Doc != nil {
			t.Fatalf("found %+v, want none", *got.Doc)
		}
		return
	}
	if got.Doc == nil {
		t.Fatalf("%s without the document found, want %+v", statusName(got.Status), *found)
	}
	wantDoc(t, *got.Doc, *found)
}

// read reads one document by id; nil when absent.
func read(t *testing.T, s driver.Store, kind driver.Kind, id string) *driver.Doc {
	t.Helper()
	res, err := s.Read(t.Context(), kind, id)
	if err != nil {
		t.Fatalf("read %s %s: %v", kind, id, err)
	}
	switch len(res.Docs) {
	case 0:
		return nil
	case 1:
		return &res.Docs[0]
	}
	t.Fatalf("read of one id: %d documents", len(res.Docs))
	return nil
}

// wantStored reads a document and compares it.
func wantStored(t *testing.T, s driver.Store, want driver.Doc) {
	t.Helper()
	got := read(t, s, want.Kind, want.ID)
	if got == nil {
		t.Fatalf("%s %s is absent", want.Kind, want.ID)
	}
	wantDoc(t, *got, want)
}

// wantCounter reads a counter and compares it: exactly, or with the least where the store counts more.
func (b *bench) wantCounter(t *testing.T, s driver.Store, want driver.Doc) {
	t.Helper()
	if !b.db.CountsMore {
		wantStored(t, s, want)
		return
	}
	got := read(t, s, want.Kind, want.ID)
	if got == nil || got.Count < want.Count || got.Rev < want.Rev {
		t.Fatalf("counter %s is %+v, want at least count %d and revision %d", want.ID, got, want.Count, want.Rev)
	}
}

func wantAbsent(t *testing.T, s driver.Store, kind driver.Kind, id string) {
	t.Helper()
	if got := read(t, s, kind, id); got != nil {
		t.Fatalf("%s %s is there: %+v", kind, id, *got)
	}
}

func wantDoc(t *testing.T, got, want driver.Doc) {
	t.Helper()
	if !equal(got, want) {
		t.Fatalf("document:\n got %s\nwant %s", show(got), show(want))
	}
}

func equal(a, b driver.Doc) bool {
	bodies := string(a.Body) == string(b.Body)
	a.Body, b.Body = nil, nil
	return bodies && show(a) == show(b)
}

func show(d driver.Doc) string {
	body := d.Body
	d.Body = nil
	return fmt.Sprintf("%+v body %.200q", d, body)
}

func describe(out driver.Outcome) string {
	text := statusName(out.Status)
	if out.Doc != nil {
		text += ", found " + show(*out.Doc)
	}
	if out.Err != nil {
		text += ", error " + out.Err.Error()
	}
	return text
}

func statusName(s driver.Status) string {
	switch s {
	case driver.Unknown:
		return "unknown"
	case driver.Applied:
		return "applied"
	case driver.Refused:
		return "refused"
	case driver.Overtaken:
		return "overtaken"
	}
	return fmt.Sprintf("status %d", s)
}

// eventually tries until check returns "", for as long as a List may be stale; then it fails with what check said last.
func (b *bench) eventually(t *testing.T, check func() string) {
	t.Helper()
	deadline := time.NewTimer(b.db.Patience)
	defer deadline.Stop()
	for {
		wrong := check()
		if wrong == "" {
			return
		}
		again := time.NewTimer(20 * time.Millisecond)
		select {
		case <-deadline.C:
			t.Fatal(wrong)
		case <-again.C:
		}
	}
}

// written creates a document at a revision and then writes it several times.
func (b *bench) written(s driver.Store, kind driver.Kind, id string, rev, writes int64) driver.Doc {
	b.t.Helper()
	c := b.put(driver.Doc{Kind: kind, ID: id, Group: "g"}, 0)
	c.Doc.Rev = rev
	must(b.t, s, c)
	for range writes {
		c = b.put(c.Doc, c.Doc.Rev)
		must(b.t, s, c)
	}
	return c.Doc
}
