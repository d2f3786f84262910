package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/store/driver"
)

// watch begins to watch as the session "me" and takes the first notification, which is a Resync. False: this store
// cannot.
func (b *bench) watch(ctx context.Context, t *testing.T, s driver.Store) (<-chan driver.Notification, bool) {
	t.Helper()
	return b.watchFor(ctx, t, s, driver.Interest{Session: "me"})
}

// watchFor is watch with another interest.
func (b *bench) watchFor(
	ctx context.Context, t *testing.T, s driver.Store, in driver.Interest,
) (<-chan driver.Notification, bool) {
	t.Helper()
	notes, err := s.Watch(ctx, in)
	if b.db.CannotWatch {
		if !errors.Is(err, driver.ErrCannotWatch) || notes != nil {
			t.Fatalf("watch: %v, want ErrCannotWatch", err)
		}
		return nil, false
	}
	if err != nil {
		t.Fatalf("watch: %v", err)
	}
	if first := b.next(t, notes); !first.Resync {
		t.Fatalf("first notification %+v, want a Resync", first)
	}
	return notes, true
}

// next takes the next notification.
func (b *bench) next(t *testing.T, notes <-chan driver.Notification) driver.Notification {
	t.Helper()
	late := time.NewTimer(b.db.Patience)
	defer late.Stop()
	select {
	case h, ok := <-notes:
		if !ok {
			t.Fatal("the watch has ended")
		}
		wantSense(t, h)
		return h
	case <-late.C:
		t.Fatalf("no notification within %v", b.db.Patience)
	}
	return driver.Notification{}
}

// wantSense checks that a notification makes sense in itself.
func wantSense(t *testing.T, h driver.Notification) {
	t.Helper()
	switch {
	case h.Resync && (h.Kind != "" || h.ID != "" || h.Doc != nil):
		t.Fatalf("a Resync names a document: %+v", h)
	case !h.Resync && (!h.Kind.Valid() || h.ID == ""):
		t.Fatalf("a notification without its document's name: %+v", h)
	case h.Doc != nil && (h.Doc.Kind != h.Kind || h.Doc.ID != h.ID || h.Doc.Rev == 0):
		t.Fatalf("a notification of %s %s with another document: %+v", h.Kind, h.ID, *h.Doc)
	}
}

// wantNotified waits for a notification of d or for a Resync; notes of other things may come before. If the
// notification has a document it is as d at least.
func (b *bench) wantNotified(t *testing.T, notes <-chan driver.Notification, d driver.Doc) {
	t.Helper()
	for {
		h := b.next(t, notes)
		if h.Resync {
			return
		}
		if h.Kind == d.Kind && h.ID == d.ID && (h.Doc == nil || h.Doc.Rev >= d.Rev) {
			if h.Doc != nil && h.Doc.Rev == d.Rev {
				wantDoc(t, *h.Doc, d)
			}
			return
		}
	}
}

func testWatch(b *bench) {
	t := b.t
	watcher, writer := b.open(t), b.open(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	notes, ok := b.watch(ctx, t, watcher)
	if !ok {
		return
	}
	expect := func(c driver.Change) {
		t.Helper()
		must(t, writer, c)
		b.wantNotified(t, notes, c.Doc)
	}
	body := []byte(`{"a":1}`)
	session := driver.Doc{Kind: driver.KindSession, ID: "other", State: "live", Count: 1, Body: body}
	override := driver.Doc{Kind: driver.KindOverride, ID: "pause/g/a", State: "pause", Body: body}
	mine := driver.Doc{Kind: driver.KindLock, ID: "g/a", Group: "g", Session: "other", Body: body}
	must(t, writer, b.put(mine, 0))

	expect(b.put(session, 0))
	session.State = "draining"
	expect(b.put(session, 1))
	session.State = "dead"
	expect(b.put(session, 2))

	expect(b.put(override, 0))
	override.Body = nil
	expect(b.put(override, 1))
	must(t, writer, remove(override, 2))
	b.wantNotified(t, notes, driver.Doc{Kind: override.Kind, ID: override.ID})

	mine.Session, mine.Next = "", "me"
	expect(b.put(mine, 1))

	// A mutex is reserved for the next one while others still hold it together, too.
	mutex := driver.Doc{Kind: driver.KindMutex, ID: "locks/a", Session: "other", Body: body}
	must(t, writer, b.put(mutex, 0))
	mutex.Next = "me"
	expect(b.put(mutex, 1))
	mutex.Session = ""
	expect(b.put(mutex, 2))

	for count := range int64(3) {
		must(t, writer, increment("g"))
		b.wantNotified(t, notes, counter("g", count+1, count+1))
	}
	// One's own writes are reported as well.
	must(t, watcher, increment("g"))
	b.wantNotified(t, notes, counter("g", 4, 4))
}

// Of many changes at once, each is reported to each watcher, in a notification or by a Resync. No watcher has to read
// in time.
func testWatchMany(b *bench) {
	t := b.t
	const groups = 600
	writer := b.open(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var watches []<-chan driver.Notification
	for range 3 {
		notes, ok := b.watch(ctx, t, b.open(t))
		if !ok {
			return
		}
		watches = append(watches, notes)
	}
	for round := range 3 {
		var changes []driver.Change
		for i := range groups {
			changes = append(changes, increment(fmt.Sprint("g", i)))
		}
		must(t, writer, changes...)
		last := increment(fmt.Sprint("last", round))
		must(t, writer, last)
	}
	for _, notes := range watches {
		b.wantAllNotified(t, notes, groups)
	}
}

// wantAllNotified reads notes until a Resync after which nothing is unknown, or until every group was named.
func (b *bench) wantAllNotified(t *testing.T, notes <-chan driver.Notification, groups int) {
	t.Helper()
	missing := map[string]bool{"last2": true}
	for i := range groups {
		missing[fmt.Sprint("g", i)] = true
	}
	for len(missing) > 0 {
		h := b.next(t, notes)
		if h.Resync {
			return
		}
		delete(missing, h.ID)
	}
}

func testWatchEnds(b *bench) {
	t := b.t
	s, other := b.open(t), b.open(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	notes, ok := b.watch(ctx, t, s)
	if !ok {
		return
	}
	second, _ := b.watch(t.Context(), t, s)
	must(t, other, increment("g"))
	cancel()
	b.wantClosed(t, notes)

	// The end of one watch leaves the others alone.
	must(t, other, increment("h"))
	b.wantNotified(t, second, counter("h", 1, 1))

	third := b.openForClose(t)
	last, _ := b.watch(t.Context(), t, third)
	if err := third.Close(t.Context()); err != nil {
		t.Fatalf("close: %v", err)
	}
	b.wantClosed(t, last)

	ended, stop := context.WithCancel(t.Context())
	stop()
	if notes, err := s.Watch(ended, driver.Interest{Session: "me"}); err == nil {
		b.wantClosed(t, notes)
	}
}

// What a replica must not be woken by, which would be N² notifications: heartbeats, claims and locks of others, members,
// values, events, other clusters. The notification that it waits for comes after all of them, since events are in order.
func testQuietWatch(b *bench) {
	t := b.t
	if !b.db.Quiet {
		t.Skip("watches of this store notify of more than they are asked for")
	}
	writer := b.open(t)
	session := driver.Doc{Kind: driver.KindSession, ID: "s", State: driver.StateLive, Count: 1}
	claimed := lock("g/a")
	claimed.Session = "s"
	must(t, writer, b.put(session, 0), b.put(claimed, 0))
	notes, ok := b.watchFor(t.Context(), t, b.open(t), driver.Interest{Session: "me", Keys: []string{"g/a"}})
	if !ok {
		return
	}
	for rev := int64(1); rev <= 10; rev++ {
		session.Count++
		must(t, writer, b.put(session, rev), b.put(claimed, rev))
		var locks []driver.Change
		for i := range 20 {
			d := lock(fmt.Sprint("g/others-", i))
			d.Session = "s"
			locks = append(locks, b.put(d, rev-1))
		}
		must(t, writer, locks...)
		for _, kind := range []driver.Kind{driver.KindMember, driver.KindValue, driver.KindEvent} {
			must(t, writer, b.put(driver.Doc{Kind: kind, ID: "x"}, rev-1))
		}
	}
	theirs := lock("g/theirs")
	theirs.Next = "somebody else"
	must(t, writer, b.put(theirs, 0))
	if b.db.Neighbour != nil {
		neighbour, err := b.db.Neighbour(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		must(t, neighbour, increment("g"))
		if err := neighbour.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	mine := lock("g/mine")
	mine.Next, mine.Body = "me", []byte(`{"reason":"Move"}`)
	claimed.Session = ""
	for _, c := range []driver.Change{b.put(mine, 0), b.put(claimed, 11)} {
		must(t, writer, c)
		if n := b.next(t, notes); n.Kind != c.Doc.Kind || n.ID != c.Doc.ID {
			t.Fatalf("notified of %+v, want %s and nothing before it", n, c.Doc.ID)
		} else if n.Doc != nil {
			wantDoc(t, *n.Doc, c.Doc)
		}
	}
}

// wantClosed reads what is left and then the end of the channel.
func (b *bench) wantClosed(t *testing.T, notes <-chan driver.Notification) {
	t.Helper()
	late := time.NewTimer(b.db.Patience)
	defer late.Stop()
	for {
		select {
		case _, ok := <-notes:
			if !ok {
				return
			}
		case <-late.C:
			t.Fatalf("the watch has not ended within %v", b.db.Patience)
		}
	}
}

// An interest may be served with more than was asked for. What was asked for comes, whatever else was narrowed.
func testInterests(b *bench) {
	t := b.t
	writer := b.open(t)
	session := driver.Doc{Kind: driver.KindSession, ID: "s", State: "live"}
	override := driver.Doc{Kind: driver.KindOverride, ID: "pause/g/a", Group: "g"}
	tests := map[string]struct {
		in   driver.Interest
		docs []driver.Doc
	}{
		"nothing named": {driver.Interest{}, []driver.Doc{session, override}},
		"one group":     {driver.Interest{Groups: []string{"g"}}, []driver.Doc{session, override}},
		"some kinds":    {driver.Interest{Kinds: []driver.Kind{driver.KindSession}}, []driver.Doc{session}},
		"kind and group": {
			driver.Interest{Kinds: []driver.Kind{driver.KindOverride}, Groups: []string{"f", "g"}}, []driver.Doc{override},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			notes, ok := b.watchFor(t.Context(), t, b.open(t), tt.in)
			if !ok {
				return
			}
			for _, d := range tt.docs {
				d.ID += "/" + name
				c := b.put(d, 0)
				must(t, writer, c)
				b.wantNotified(t, notes, c.Doc)
			}
		})
	}
	t.Run("counter", func(t *testing.T) {
		notes, ok := b.watchFor(
			t.Context(), t, b.open(t), driver.Interest{Groups: []string{"g"}, Kinds: []driver.Kind{driver.KindGroup}},
		)
		if !ok {
			return
		}
		must(t, writer, increment("g"))
		b.wantNotified(t, notes, counter("g", 1, 1))
	})
	if b.db.CannotWatch {
		return
	}
	for want, in := range map[error]driver.Interest{
		driver.ErrMalformed: {Kinds: []driver.Kind{"thing"}},
		driver.ErrTooLarge:  {Keys: make([]string, driver.MaxInterest+1)},
	} {
		if _, err := writer.Watch(t.Context(), in); !errors.Is(err, want) {
			t.Errorf("watch %.100v: %v, want %v", in, err, want)
		}
	}
}

// Who waits for a lock or a mutex is notified when it has no owner any more, and when it is deleted.
func testKeysOfInterest(b *bench) {
	t := b.t
	writer := b.open(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	notes, ok := b.watchFor(ctx, t, b.open(t), driver.Interest{Keys: []string{"g/a", "g/b"}})
	if !ok {
		return
	}
	for _, kind := range []driver.Kind{driver.KindLock, driver.KindMutex} {
		for _, id := range []string{"g/a", "g/b"} {
			d := driver.Doc{Kind: kind, ID: id, Session: "s"}
			must(t, writer, b.put(d, 0))
			d.Session = ""
			c := b.put(d, 1)
			must(t, writer, c)
			b.wantNotified(t, notes, c.Doc)
		}
		gone := driver.Doc{Kind: kind, ID: "g/b"}
		must(t, writer, remove(gone, 2))
		b.wantNotified(t, notes, gone)
	}
}
