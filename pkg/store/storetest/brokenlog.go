package storetest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/clock"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// reasonLogBroken is the reason of the problem that changes are not noted for watches.
const reasonLogBroken = "StoreLogBroken"

// BrokenLog tests a store that notes changes for its watches beside the documents, where it cannot note them, or notes
// them so that no watch sees it. No change fails by that, and watches look at everything instead.
type BrokenLog struct {
	// Config opens an empty database.
	Config driver.Config
	// Break is what somebody does to the log while replicas use it.
	Break func()
	// Told is what the problem says that an operator is to run, and Mend has run it. Empty: the store mends the log
	// itself.
	Told string
	Mend func()
}

// Run runs the test.
func (l BrokenLog) Run(t *testing.T) {
	t.Helper()
	b := &bench{t: t}
	s, other := Open(t, l.Config), Open(t, l.Config)
	notes, err := other.Watch(t.Context(), driver.Interest{Session: "heir", Keys: []string{"g/key", "free"}})
	if err != nil {
		t.Fatal(err)
	}
	w := &logWatch{t: t, notes: notes}
	owned := lock("g/key")
	owned.Session = "owner"
	taken := b.put(owned, 0)
	must(t, s, taken, Heartbeat("owner", 0), increment("g"))
	w.named("g")
	l.Break()
	for _, step := range afterTheBreak(b, taken.Doc.Rev) {
		w.drain()
		must(t, s, step.changes...)
		if !step.again {
			w.hears()
		}
	}
	if l.Told != "" {
		l.wantTold(t, s)
		l.Mend()
	}
	// By the one that met the trouble, and by one that opens the store now.
	for _, s := range []driver.Store{Open(t, l.Config), s} {
		l.wantMended(t, s, w)
	}
}

// logStep is what is written while the log is broken.
type logStep struct {
	changes []driver.Change
	again   bool // written before: what confirms that needs no log
}

// afterTheBreak are changes of each kind that concerns a watch, of a lock that is owned at a revision among others.
func afterTheBreak(b *bench, owned int64) []logStep {
	free := b.put(lock("g/key"), owned)
	reserved := lock("g/key")
	reserved.Next = "heir"
	heir := b.put(reserved, free.Doc.Rev)
	dies := Heartbeat("owner", 1)
	dies.Doc.State = "dead"
	override := b.put(driver.Doc{Kind: driver.KindOverride, ID: "g/key", Group: "g"}, 0)
	return []logStep{
		{changes: []driver.Change{increment("g")}},
		{changes: []driver.Change{Heartbeat("new", 0)}},
		{changes: []driver.Change{free, increment("g")}},
		{changes: []driver.Change{heir}},
		{changes: []driver.Change{heir}, again: true},
		{changes: []driver.Change{dies, increment("h"), override}},
		{changes: []driver.Change{{Op: driver.Delete, IfRev: override.Doc.Rev, Doc: driver.Doc{
			Kind: driver.KindOverride, ID: "g/key", Group: "g", WriterID: b.writerID(),
		}}}},
	}
}

func (BrokenLog) told(s driver.Store) string {
	for _, p := range store.Problems(s) {
		if p.Reason == reasonLogBroken {
			return p.Message
		}
	}
	return ""
}

func (l BrokenLog) wantTold(t *testing.T, s driver.Store) {
	t.Helper()
	if told := l.told(s); !strings.Contains(told, l.Told) {
		t.Errorf("problems %+v, want %s with %q", store.Problems(s), reasonLogBroken, l.Told)
	}
}

// wantMended wants changes noted by their names again, and no problem.
func (l BrokenLog) wantMended(t *testing.T, s driver.Store, w *logWatch) {
	t.Helper()
	for end := time.Now().Add(patience); ; {
		w.drain()
		must(t, s, increment("g"))
		n := w.hears()
		told := l.told(s)
		if !n.Resync && told == "" {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("after %v the problem is %q, and a change is notified as %+v", patience, told, n)
		}
		_ = clock.Sleep(t.Context(), 50*time.Millisecond)
	}
}

// logWatch is a watch whose store may have lost notes.
type logWatch struct {
	t     *testing.T
	notes <-chan driver.Notification
}

func (w *logWatch) drain() {
	for len(w.notes) > 0 {
		<-w.notes
	}
}

// hears waits for a notification of any kind.
func (w *logWatch) hears() driver.Notification {
	w.t.Helper()
	select {
	case n, open := <-w.notes:
		if !open {
			w.t.Fatal("the watch ended")
		}
		return n
	case <-time.After(patience):
		w.t.Fatalf("nothing is notified within %v of a change", patience)
	}
	return driver.Notification{}
}

// named waits for the notification of one document.
func (w *logWatch) named(id string) {
	w.t.Helper()
	for w.hears().ID != id {
	}
}

// Pieces tests that a store has all that makes it quick, whatever somebody has dropped.
type Pieces struct {
	// Config opens an empty database.
	Config driver.Config
	// Layout is all indexes, triggers and the like of the database, in order.
	Layout func(t *testing.T) []string
	// Drop drops all of them at once, but the tables of documents.
	Drop func(t *testing.T)
	// DropTable drops the table of a kind. Nil: what is written makes it anew.
	DropTable func(t *testing.T, kind driver.Kind)
	// Denied opens the store as a user who may not make anything. That is a problem, whose message holds Told. Nil:
	// every user may.
	Denied *driver.Config
	Told   string
}

// Run runs the test.
func (p Pieces) Run(t *testing.T) {
	t.Helper()
	ends := func(s driver.Store) {
		t.Helper()
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	ends(Open(t, p.Config))
	before := fmt.Sprint(p.Layout(t))
	p.Drop(t)
	if dropped := fmt.Sprint(p.Layout(t)); dropped == before {
		t.Fatalf("nothing was dropped of %s", before)
	}
	if p.Denied != nil {
		s := Open(t, *p.Denied)
		if found := fmt.Sprint(store.Problems(s)); !strings.Contains(found, "StoreIncomplete") ||
			!strings.Contains(found, p.Told) {
			t.Errorf("problems %s, want StoreIncomplete with %q", found, p.Told)
		}
		must(t, s, increment("g"))
		ends(s)
	}
	s := Open(t, p.Config)
	if after := fmt.Sprint(p.Layout(t)); after != before {
		t.Errorf("after it was opened again:\n%s\nwant\n%s", after, before)
	}
	must(t, s, increment("g"))
	ends(s)
	if p.DropTable == nil {
		return
	}
	p.DropTable(t, driver.KindLock)
	WantRefused(t, p.Config, driver.ErrInvalid, driver.KindLock.Info().Plural, "missing")
}
