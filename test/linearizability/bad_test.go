package linearizability

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/anishathalye/porcupine"

	"github.com/shardctl/shardctl/pkg/elect"
)

// A checker that cannot fail proves nothing: these histories are wrong, each in its own way, and beside each is the one that is right.

func doc(rev, seq int64) *elect.Doc {
	return &elect.Doc{Kind: elect.KindLock, ID: "g/k", Rev: rev, Stamp: elect.Stamp{Session: "c", Seq: seq}}
}

func read(call, end int64, found *elect.Doc) access {
	return access{verb: reads, call: call, last: call, end: end, found: found, shown: true}
}

// put writes revision rev of stamp seq at ifRev. found is shown unless it was applied or is unknown.
func put(call, end, ifRev, rev, seq int64, status elect.Status, found *elect.Doc) access {
	a := access{verb: puts, call: call, last: call, end: end, status: status, change: elect.Change{IfRev: ifRev, Doc: *doc(rev, seq)}}
	a.found, a.shown = found, status == elect.Refused || status == elect.Overtaken
	return a
}

func drop(call, end, ifRev int64, status elect.Status) access {
	return access{verb: drops, call: call, last: call, end: end, status: status, change: elect.Change{Op: elect.Delete, IfRev: ifRev}}
}

func TestBadDocuments(t *testing.T) {
	t.Parallel()
	created := put(1, 2, 0, 1, 1, elect.Applied, nil)
	for name, tc := range map[string]struct {
		good, bad []access
	}{
		"lost update": {
			good: []access{created, put(3, 6, 1, 2, 2, elect.Applied, nil), put(3, 6, 1, 2, 3, elect.Refused, doc(2, 2))},
			bad:  []access{created, put(3, 6, 1, 2, 2, elect.Applied, nil), put(3, 6, 1, 2, 3, elect.Applied, nil)},
		},
		"stale read": {
			good: []access{created, put(3, 5, 1, 2, 2, elect.Applied, nil), read(4, 6, doc(1, 1))},
			bad:  []access{created, put(3, 4, 1, 2, 2, elect.Applied, nil), read(5, 6, doc(1, 1))},
		},
		"stale refusal": {
			good: []access{created, put(3, 4, 1, 2, 2, elect.Applied, nil), put(5, 6, 1, 3, 3, elect.Refused, doc(2, 2))},
			bad:  []access{created, put(3, 4, 1, 2, 2, elect.Applied, nil), put(5, 6, 2, 3, 3, elect.Refused, doc(1, 1))},
		},
		"created twice": {
			good: []access{created, drop(3, 4, 1, elect.Applied), put(5, 6, 0, 9, 2, elect.Applied, nil)},
			bad:  []access{created, put(5, 6, 0, 9, 2, elect.Applied, nil)},
		},
		"an acknowledged write is gone": {
			good: []access{created, read(3, 4, doc(1, 1))},
			bad:  []access{created, read(3, 4, nil)},
		},
		"reads go back": {
			good: []access{created, put(3, 9, 1, 2, 2, elect.Unknown, nil), read(4, 5, doc(1, 1)), read(6, 7, doc(2, 2))},
			bad:  []access{created, put(3, 9, 1, 2, 2, elect.Unknown, nil), read(4, 5, doc(2, 2)), read(6, 7, doc(1, 1))},
		},
		"refused, and seen": {
			good: []access{created, put(3, 4, 1, 2, 2, elect.Unknown, nil), read(5, 6, doc(2, 2))},
			bad:  []access{created, put(3, 4, 1, 2, 2, elect.Refused, doc(1, 1)), read(5, 6, doc(2, 2))},
		},
		"unknown, and seen before it was sent": {
			good: []access{created, put(3, 4, 1, 2, 2, elect.Unknown, nil), read(3, 4, doc(2, 2))},
			bad:  []access{created, put(5, 6, 1, 2, 2, elect.Unknown, nil), read(3, 4, doc(2, 2))},
		},
		"removed, and shown": {
			good: []access{created, drop(3, 5, 1, elect.Applied), read(4, 6, doc(1, 1))},
			bad:  []access{created, drop(3, 5, 1, elect.Applied), read(6, 7, doc(1, 1))},
		},
		"an unknown creation happens twice": {
			good: []access{put(1, 2, 0, 1, 1, elect.Unknown, nil), put(3, 4, 0, 1, 1, elect.Applied, nil), drop(5, 6, 1, elect.Applied), read(7, 8, doc(1, 1))},
			bad:  []access{put(3, 4, 0, 1, 1, elect.Applied, nil), drop(5, 6, 1, elect.Applied), read(7, 8, doc(1, 1))},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if !porcupine.CheckOperations(documentModel, documentSteps(tc.good, true)) {
				t.Error("the good history is rejected")
			}
			if porcupine.CheckOperations(documentModel, documentSteps(tc.bad, true)) {
				t.Error("the bad history is accepted")
			}
		})
	}
}

func TestBadCounters(t *testing.T) {
	t.Parallel()
	raise := func(call, end int64, s elect.Status) access {
		return access{verb: bumps, call: call, end: end, status: s}
	}
	shows := func(call, end, count int64) access {
		return read(call, end, &elect.Doc{Kind: elect.KindGroup, Count: count})
	}
	for name, tc := range map[string]struct {
		good, bad []access
	}{
		"a raise is lost": {
			good: []access{raise(1, 2, elect.Applied), raise(1, 2, elect.Applied), shows(3, 4, 2)},
			bad:  []access{raise(1, 2, elect.Applied), raise(1, 2, elect.Applied), shows(3, 4, 1)},
		},
		"a raise counts twice": {
			good: []access{raise(1, 2, elect.Applied), raise(1, 2, elect.Unknown), shows(3, 4, 2)},
			bad:  []access{raise(1, 2, elect.Applied), shows(3, 4, 2)},
		},
		"it goes back": {
			good: []access{raise(1, 2, elect.Unknown), shows(3, 4, 0), shows(5, 6, 1)},
			bad:  []access{raise(1, 2, elect.Unknown), shows(3, 4, 1), shows(5, 6, 0)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if !porcupine.CheckOperations(counterModel, counterSteps(tc.good, true)) {
				t.Error("the good history is rejected")
			}
			if porcupine.CheckOperations(counterModel, counterSteps(tc.bad, true)) {
				t.Error("the bad history is accepted")
			}
		})
	}
}

func TestBadAnswers(t *testing.T) {
	t.Parallel()
	for want, a := range map[string]access{
		"meets the condition":                 put(1, 2, 1, 2, 2, elect.Refused, doc(1, 1)),
		"no document":                         put(1, 2, 1, 2, 2, elect.Refused, nil),
		"is what it wrote":                    put(1, 2, 1, 2, 2, elect.Refused, doc(2, 2)),
		"cannot have come after":              put(1, 2, 1, 5, 2, elect.Overtaken, doc(3, 3)),
		"and the document as found meets the": put(1, 2, 0, 5, 2, elect.Refused, nil),
	} {
		if got := a.problem(); !strings.Contains(got, want) {
			t.Errorf("%v: %q, want %q", a, got, want)
		}
	}
}

// What porcupine rejects is shown as a time line and a picture.
func TestReport(t *testing.T) {
	t.Parallel()
	d := document{kind: elect.KindLock, id: "g/k", history: []access{put(1, 2, 0, 1, 1, elect.Applied, nil), read(3, 4, nil)}}
	found := d.judge("lock g/k", true)
	if len(found) != 1 {
		t.Fatalf("%d findings, want 1", len(found))
	}
	for _, want := range []string{"no order explains it", "put at rev 0 rev 1 of c/1: applied", "read, shows nothing"} {
		if !strings.Contains(found[0].text, want) {
			t.Errorf("report %q, want %q in it", found[0].text, want)
		}
	}
	path := filepath.Join(t.TempDir(), "history.html")
	if err := found[0].draw(path); err != nil {
		t.Fatal(err)
	}
	if page, err := os.ReadFile(path); err != nil || !strings.Contains(string(page), "rev 1 of c/1") {
		t.Errorf("the picture shows nothing of the history: %v", err)
	}
}
