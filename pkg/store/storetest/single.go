package storetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/shardctl/shardctl/pkg/store/driver"
)

func lock(id string) driver.Doc {
	group, _, _ := strings.Cut(id, "/")
	return driver.Doc{Kind: driver.KindLock, ID: id, Group: group}
}

// increment raises a group's counter.
func increment(group string) driver.Change {
	return driver.Change{Op: driver.Increment, Doc: driver.Doc{Kind: driver.KindGroup, ID: group}}
}

// counter is a group's counter as a read returns it.
func counter(group string, rev, count int64) driver.Doc {
	return driver.Doc{Kind: driver.KindGroup, ID: group, Rev: rev, Count: count}
}

// remove deletes a document at a revision.
func remove(d driver.Doc, rev int64) driver.Change {
	return driver.Change{Op: driver.Delete, IfRev: rev, Doc: d}
}

func testCreate(b *bench) {
	t := b.t
	s := b.open(t)
	for _, kind := range driver.Kinds() {
		wantAbsent(t, s, kind, "g/a")
		first := b.put(driver.Doc{Kind: kind, ID: "g/a"}, 0)
		must(t, s, first)
		wantStored(t, s, first.Doc)

		second := b.put(driver.Doc{Kind: kind, ID: "g/a", Count: 7}, 0)
		wantFound(t, apply(t, s, second), driver.Refused, &first.Doc)
		wantStored(t, s, first.Doc)
	}
}

func testReplace(b *bench) {
	t := b.t
	s := b.open(t)
	first := b.put(lock("g/a"), 0)
	must(t, s, first)

	second := b.put(lock("g/a"), 1)
	second.Doc.Rev, second.Doc.Session = 1_700_000_000_000, "s1" // revisions may jump: locks follow the clock
	must(t, s, second)
	wantStored(t, s, second.Doc)

	late := b.put(lock("g/a"), 1)
	late.Doc.Rev = second.Doc.Rev // proof that it was not written: another writer ID is at its revision
	wantFound(t, apply(t, s, late), driver.Refused, &second.Doc)
	early := b.put(lock("g/a"), second.Doc.Rev+5)
	wantFound(t, apply(t, s, early), driver.Refused, &second.Doc)
	wantStored(t, s, second.Doc)

	other := lock("g/b")
	missing := apply(t, s, b.put(other, 3))
	if missing.Status == driver.Applied || missing.Status == driver.Unknown || missing.Doc != nil {
		t.Fatalf("replace of an absent document: %s", describe(missing))
	}
	wantAbsent(t, s, driver.KindLock, "g/b")
}

func testDelete(b *bench) {
	t := b.t
	s := b.open(t)
	first, beside := b.put(lock("g/a"), 0), b.put(lock("g/b"), 0)
	must(t, s, first, beside)
	del := func(rev int64) driver.Change {
		return remove(driver.Doc{Kind: driver.KindLock, ID: "g/a", WriterID: b.writerID()}, rev)
	}
	wantFound(t, apply(t, s, del(2)), driver.Refused, &first.Doc)
	wantStored(t, s, first.Doc)
	gone := del(1)
	must(t, s, gone)
	wantAbsent(t, s, driver.KindLock, "g/a")
	wantStored(t, s, beside.Doc)
	// The document is gone, perhaps by this change: that cannot be known any more.
	wantFound(t, apply(t, s, gone), driver.Overtaken, nil)

	again := b.put(lock("g/a"), 0)
	again.Doc.Rev = 7
	must(t, s, again)
	wantStored(t, s, again.Doc)
	// It was deleted, and created again by somebody else: not refused.
	wantFound(t, apply(t, s, gone), driver.Overtaken, &again.Doc)
	wantStored(t, s, again.Doc)
	if docs := b.list(t, s, driver.KindLock, driver.Query{}, 2); docs[0].ID != "g/a" || docs[1].ID != "g/b" {
		t.Fatalf("after creating again: %v", ids(docs))
	}
}

func testFields(b *bench) {
	t := b.t
	s, other := b.open(t), b.open(t)
	full := driver.Doc{
		ID: "g/a", Group: "g", Session: "s1", Next: "s2", Suspended: true, State: "live", Count: 1 << 40,
		Expires: 1 << 41,
		Body: []byte(
			`{"text":"ü ☃ \u0000 \"quoted\"", "n":1.50,"list":[1,2,{}],"b":"` + strings.Repeat("x", 1000) + `"}`,
		),
	}
	for _, kind := range driver.Kinds() {
		full.Kind = kind
		change := b.put(full, 0)
		change.Doc.Rev = driver.MaxRev - 1
		must(t, s, change)
		wantStored(t, other, change.Doc)
		docs := b.list(t, other, kind, driver.Query{}, 1)
		wantDoc(t, docs[0], change.Doc)

		// Every field goes back to nothing: a replace leaves nothing of the old document.
		empty := b.put(driver.Doc{Kind: kind, ID: "g/a"}, change.Doc.Rev)
		must(t, s, empty)
		wantStored(t, other, empty.Doc)
	}
}

func testBody(b *bench) {
	t := b.t
	s := b.open(t)
	random := make([]byte, driver.MaxBody)
	for i := range random {
		random[i] = byte(i * i / 7 % 256)
	}
	for id, body := range map[string][]byte{
		"nil": nil, "empty": {}, "object": []byte(`{}`), "spaced": []byte(" {\n\"a\" : 1 }\n"),
		"no JSON": []byte("plain"),
		"NUL":     {0}, "a NUL in a text": []byte("a\x00b"), "no UTF-8": {0xff, 0xfe, 0}, "largest": random,
	} {
		d := driver.Doc{Kind: driver.KindValue, ID: id, Body: body}
		change := b.put(d, 0)
		must(t, s, change)
		wantStored(t, s, change.Doc)
		if got := read(t, s, driver.KindValue, id); len(body) == 0 && got.Body != nil {
			t.Fatalf("empty body of %q comes back as %q, want nil", id, got.Body)
		}
	}
	// What the caller does with its bytes later, or with what it got, is its own affair.
	body := []byte(`{"a":1}`)
	change := b.put(driver.Doc{Kind: driver.KindValue, ID: "mine", Body: body}, 0)
	must(t, s, change)
	body[5] = '2'
	got := read(t, s, driver.KindValue, "mine")
	got.Body[5] = '3'
	if again := read(t, s, driver.KindValue, "mine"); string(again.Body) != `{"a":1}` {
		t.Fatalf("body is %s", again.Body)
	}
}

func testIDs(b *bench) {
	t := b.t
	s := b.open(t)
	odd := []string{
		" ", "$", "$set", ".", "..", "/", "//", "0", "007", "a.b", "a/b/c", "a\nb", "a b", "ID", "Id", "id", "null",
		"'; --", `"`, `\`,
		"%", "_", "ä", "a\u0308", "日本", "😀", "\u200b", "\ufffd", "*", "?", "[a]", strings.Repeat("x", driver.MaxText),
	}
	var changes []driver.Change
	for _, id := range odd {
		changes = append(
			changes, b.put(driver.Doc{Kind: driver.KindLock, ID: id, Group: id, Session: id, Next: id, State: id}, 0),
		)
	}
	must(t, s, changes...)
	for _, c := range changes {
		wantStored(t, s, c.Doc)
		docs := b.list(
			t, s, driver.KindLock,
			driver.Query{Group: c.Doc.ID, Sessions: []string{c.Doc.ID}, States: []string{c.Doc.ID}}, 1,
		)
		wantDoc(t, docs[0], c.Doc)
	}
	docs := b.list(t, s, driver.KindLock, driver.Query{}, len(odd))
	for i := 1; i < len(docs); i++ {
		if docs[i-1].ID >= docs[i].ID {
			t.Fatalf("%.20q before %.20q: want the order of bytes", docs[i-1].ID, docs[i].ID)
		}
	}
}

func testRead(b *bench) {
	t := b.t
	s := b.open(t)
	must(t, s, b.put(lock("g/a"), 0), b.put(lock("g/b"), 0), b.put(lock("g/c"), 0))
	must(t, s, b.put(driver.Doc{Kind: driver.KindValue, ID: "g/x"}, 0))
	for want, asked := range map[string][]string{
		"":             {},
		"g/a":          {"g/a"},
		"g/a g/c":      {"g/c", "g/missing", "g/a", "g/x"},
		"g/a g/b g/c":  {"g/a", "g/b", "g/c", "g/a"},
		"g/b":          append(manyIDs(1000), "g/b"),
		" g/a g/b g/c": append(manyIDs(300), "g/a", "g/b", "g/c"),
	} {
		res, err := s.Read(t.Context(), driver.KindLock, asked...)
		if err != nil {
			t.Fatalf("read %d ids: %v", len(asked), err)
		}
		if got := strings.Join(sortedIDs(res.Docs), " "); got != strings.TrimSpace(want) {
			t.Fatalf("read %.50v: got %q, want %q", asked, got, want)
		}
	}
}

func testNow(b *bench) {
	t := b.t
	s := b.open(t)
	const hour = int64(time.Hour / time.Millisecond)
	var last int64
	for range 3 {
		res, err := s.Read(t.Context(), driver.KindLock, "g/a")
		if err != nil {
			t.Fatal(err)
		}
		listed, err := s.List(t.Context(), driver.KindLock, driver.Query{CountOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		if res.Floor <= 0 || listed.Floor <= 0 {
			t.Fatalf("floors %d and %d, want above 0", res.Floor, listed.Floor)
		}
		for _, now := range []int64{res.Now, listed.Now} {
			if off := now - time.Now().UnixMilli(); off > hour || off < -hour {
				t.Fatalf("the store's clock %d is %d ms off", now, off)
			}
			if now < last-1000 {
				t.Fatalf("the store's clock goes back from %d to %d", last, now)
			}
			last = now
		}
	}
}

// testWall has a server whose clock was set back: a revision is from a time when it was a year ahead. Revisions go on
// above it where the store sees to that; the wall clock is the server's.
func testWall(b *bench) {
	t := b.t
	s := b.open(t)
	ahead := time.Now().AddDate(1, 0, 0).UnixMilli()
	must(t, s, driver.Change{
		Op: driver.Increment, Doc: driver.Doc{Kind: driver.KindGroup, ID: "g", Rev: ahead, WriterID: b.writerID()},
	})
	other := b.open(t)
	now := map[driver.Store]int64{}
	for _, s := range []driver.Store{s, other, s, other} {
		for _, kind := range []driver.Kind{driver.KindGroup, driver.KindLock, driver.KindSession} {
			read, err := s.Read(t.Context(), kind, "g")
			if err != nil {
				t.Fatal(err)
			}
			listed, err := s.List(t.Context(), kind, driver.Query{})
			if err != nil {
				t.Fatal(err)
			}
			for _, reply := range []driver.Reply{read, listed} {
				if off := time.Until(time.UnixMilli(reply.Wall)).Abs(); off > time.Hour {
					t.Fatalf("%s: the wall clock is %v off; it must not follow revisions", kind, off)
				}
				if now[s] >= ahead && reply.Now < ahead {
					t.Fatalf("%s: Now goes back from %d to %d", kind, now[s], reply.Now)
				}
				now[s] = reply.Now
			}
		}
	}
}

func testRepeated(b *bench) {
	t := b.t
	s, other := b.open(t), b.open(t)
	create := b.put(lock("g/a"), 0)
	must(t, s, create)
	must(t, s, create) // as after a lost answer
	must(t, other, create)
	replace := b.put(lock("g/a"), 1)
	replace.Doc.Session = "s1"
	must(t, s, replace)
	must(t, other, replace)
	wantStored(t, s, replace.Doc)

	// The same revision and content under another writer ID is somebody else's write.
	twin := replace
	twin.Doc.WriterID = b.writerID()
	wantFound(t, apply(t, s, twin), driver.Refused, &replace.Doc)
	foreign := replace
	foreign.Doc.WriterID.Session = "another writer"
	wantFound(t, apply(t, s, foreign), driver.Refused, &replace.Doc)
}

func testOvertaken(b *bench) {
	t := b.t
	s := b.open(t)
	first, second, third := b.put(lock("g/a"), 0), b.put(lock("g/a"), 1), b.put(lock("g/a"), 2)
	must(t, s, first)
	must(t, s, second)
	must(t, s, third)
	wantFound(t, apply(t, s, first), driver.Overtaken, &third.Doc)
	wantFound(t, apply(t, s, second), driver.Overtaken, &third.Doc)
	wantStored(t, s, third.Doc)

	must(t, s, remove(driver.Doc{Kind: driver.KindLock, ID: "g/a", WriterID: b.writerID()}, 3))
	wantFound(t, apply(t, s, third), driver.Overtaken, nil)
	wantAbsent(t, s, driver.KindLock, "g/a")
}

// A document that was deleted and created again between a read and the write that followed is another one: the write
// does not happen. A condition on a counter that begins again with each creation would hold here.
func testRecreated(b *bench) {
	t := b.t
	s, other := b.open(t), b.open(t)
	for _, kind := range driver.Kinds() {
		if kind == driver.KindValue || kind == driver.KindGroup {
			continue // they are never deleted, so the least rights do not allow it
		}
		for writes := range int64(3) { // between creation and read, both times
			id := fmt.Sprint("g/", writes)
			before := b.written(s, kind, id, 10, writes)
			must(t, other, remove(before, before.Rev))
			now := b.written(other, kind, id, 20, writes)

			stale := b.put(before, before.Rev)
			wantFound(t, apply(t, s, stale), driver.Overtaken, &now)
			stale = b.put(before, before.Rev)
			stale.Doc.Rev = 40 // it cannot have been written before
			wantFound(t, apply(t, s, stale), driver.Refused, &now)
			wantFound(t, apply(t, s, remove(before, before.Rev)), driver.Overtaken, &now)
			wantStored(t, s, now)

			b.list(t, s, kind, driver.Query{From: id, To: id + "0", MinRev: now.Rev}, 1)
			next := b.put(now, now.Rev) // what it is at holds
			must(t, s, next)
			wantStored(t, other, next.Doc)
		}
	}
}

// What has expired is found, and cleaned away unless it was written since.
func testExpiry(b *bench) {
	t := b.t
	s := b.open(t)
	for _, kind := range []driver.Kind{driver.KindSession, driver.KindEvent, driver.KindMutex, driver.KindRequest} {
		var changes []driver.Change
		for i := range 20 {
			changes = append(
				changes, b.put(driver.Doc{Kind: kind, ID: fmt.Sprintf("%02d", i), Expires: int64(i / 2 * 10)}, 0),
			)
		}
		must(t, s, changes...) // two that never expire, and two at each of 10 to 90
		b.list(t, s, kind, driver.Query{Expired: 9}, 0)
		b.list(t, s, kind, driver.Query{Expired: 10}, 2)
		if docs := b.list(t, s, kind, driver.Query{Expired: 50, Reverse: true, Limit: 3}, 3); docs[0].ID != "11" {
			t.Fatalf("the last expired first: %v", ids(docs))
		}
		b.list(t, s, kind, driver.Query{Expired: 1000, From: "18"}, 2)

		renewed := changes[2].Doc
		renewed.Expires = 500
		must(t, s, b.put(renewed, 1))
		gone, err := driver.Clean(t.Context(), s, kind, 50, 100)
		if err != nil || len(gone) != 9 {
			t.Fatalf("cleaned %v, %v; want nine", gone, err)
		}
		left := b.list(t, s, kind, driver.Query{}, 11)
		if got := strings.Join(ids(left), " "); got != "00 01 02 12 13 14 15 16 17 18 19" {
			t.Fatalf("left: %s", got)
		}
		if gone, err := driver.Clean(t.Context(), s, kind, 1000, 4); err != nil || len(gone) != 4 {
			t.Fatalf("cleaned %v, %v; want four at most", gone, err)
		}
	}
}

// A store that loses nothing always names the same lineage, to all.
func testLineage(b *bench) {
	t := b.t
	lineages := map[string]bool{}
	for range 2 {
		s := b.open(t)
		res, err := s.Read(t.Context(), driver.KindLock, "g/a")
		if err != nil {
			t.Fatal(err)
		}
		listed, err := s.List(t.Context(), driver.KindLock, driver.Query{})
		if err != nil {
			t.Fatal(err)
		}
		out := apply(t, s, b.put(lock("g/a"), res.Floor))
		lineages[res.Lineage], lineages[listed.Lineage], lineages[out.Lineage] = true, true, true
	}
	if len(lineages) != 1 {
		t.Fatalf("lineages %v, want one", lineages)
	}
}
