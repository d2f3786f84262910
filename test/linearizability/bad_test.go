package linearizability

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/anishathalye/porcupine"

	"github.com/shardctl/shardctl/pkg/store/driver"
)

// A checker that cannot fail proves nothing: these histories are wrong, each in its own way, and beside each is the one
// that is right.

func doc(rev, seq int64) *driver.Doc {
	return &driver.Doc{Kind: driver.KindLock, ID: "g/k", Rev: rev, WriterID: driver.WriterID{Session: "c", Seq: seq}}
}

func read(call, end int64, found *driver.Doc) access {
	return access{verb: reads, call: call, last: call, end: end, found: found, shown: true}
}

// put writes revision rev of writer ID seq at ifRev. found is shown unless it was applied or is unknown.
func put(call, end, ifRev, rev, seq int64, status driver.Status, found *driver.Doc) access {
	a := access{
		verb: puts, call: call, last: call, end: end, status: status,
		change: driver.Change{IfRev: ifRev, Doc: *doc(rev, seq)},
	}
	a.found, a.shown = found, status == driver.Refused || status == driver.Overtaken
	return a
}

// alone is a try that is an access of its own.
func alone(a access) access {
	a.alone = true
	return a
}

// drop deletes revision 1.
func drop(call, end int64) access {
	return access{
		verb: drops, call: call, last: call, end: end, status: driver.Applied,
		change: driver.Change{Op: driver.Delete, IfRev: 1},
	}
}

func TestBadDocuments(t *testing.T) {
	t.Parallel()
	created := put(1, 2, 0, 1, 1, driver.Applied, nil)
	for name, tc := range map[string]struct {
		good, bad []access
	}{
		"lost update": {
			good: []access{
				created, put(3, 6, 1, 2, 2, driver.Applied, nil), put(3, 6, 1, 2, 3, driver.Refused, doc(2, 2)),
			},
			bad: []access{created, put(3, 6, 1, 2, 2, driver.Applied, nil), put(3, 6, 1, 2, 3, driver.Applied, nil)},
		},
		"stale read": {
			good: []access{created, put(3, 5, 1, 2, 2, driver.Applied, nil), read(4, 6, doc(1, 1))},
			bad:  []access{created, put(3, 4, 1, 2, 2, driver.Applied, nil), read(5, 6, doc(1, 1))},
		},
		"stale refusal": {
			good: []access{
				created, put(3, 4, 1, 2, 2, driver.Applied, nil), put(5, 6, 1, 3, 3, driver.Refused, doc(2, 2)),
			},
			bad: []access{
				created, put(3, 4, 1, 2, 2, driver.Applied, nil), put(5, 6, 2, 3, 3, driver.Refused, doc(1, 1)),
			},
		},
		"created twice": {
			good: []access{created, drop(3, 4), put(5, 6, 0, 9, 2, driver.Applied, nil)},
			bad:  []access{created, put(5, 6, 0, 9, 2, driver.Applied, nil)},
		},
		"an acknowledged write is gone": {
			good: []access{created, read(3, 4, doc(1, 1))},
			bad:  []access{created, read(3, 4, nil)},
		},
		"reads go back": {
			good: []access{
				created, put(3, 9, 1, 2, 2, driver.Unknown, nil), read(4, 5, doc(1, 1)), read(6, 7, doc(2, 2)),
			},
			bad: []access{
				created, put(3, 9, 1, 2, 2, driver.Unknown, nil), read(4, 5, doc(2, 2)), read(6, 7, doc(1, 1)),
			},
		},
		"refused, and seen": {
			good: []access{created, put(3, 4, 1, 2, 2, driver.Unknown, nil), read(5, 6, doc(2, 2))},
			bad:  []access{created, put(3, 4, 1, 2, 2, driver.Refused, doc(1, 1)), read(5, 6, doc(2, 2))},
		},
		"unknown, and seen before it was sent": {
			good: []access{created, put(3, 4, 1, 2, 2, driver.Unknown, nil), read(3, 4, doc(2, 2))},
			bad:  []access{created, put(5, 6, 1, 2, 2, driver.Unknown, nil), read(3, 4, doc(2, 2))},
		},
		"removed, and shown": {
			good: []access{created, drop(3, 5), read(4, 6, doc(1, 1))},
			bad:  []access{created, drop(3, 5), read(6, 7, doc(1, 1))},
		},
		"what was deleted comes back with a late creation, and a late write": {
			good: []access{
				alone(put(1, 2, 0, 1, 1, driver.Unknown, nil)), alone(put(3, 4, 0, 1, 1, driver.Applied, nil)),
				alone(put(5, 6, 1, 2, 2, driver.Unknown, nil)), drop(7, 8), read(9, 10, doc(2, 2)),
			},
			bad: []access{
				alone(put(3, 4, 0, 1, 1, driver.Applied, nil)), alone(put(5, 6, 1, 2, 2, driver.Unknown, nil)),
				drop(7, 8), read(9, 10, doc(2, 2)),
			},
		},
		"an unknown creation happens twice": {
			good: []access{
				alone(put(1, 2, 0, 1, 1, driver.Unknown, nil)), alone(put(3, 4, 0, 1, 1, driver.Applied, nil)),
				drop(5, 6), read(7, 8, doc(1, 1)),
			},
			bad: []access{put(3, 4, 0, 1, 1, driver.Applied, nil), drop(5, 6), read(7, 8, doc(1, 1))},
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
	raise := func(call, end int64, s driver.Status) access {
		return access{verb: increments, call: call, end: end, status: s}
	}
	shows := func(call, end, count int64) access {
		return read(call, end, &driver.Doc{Kind: driver.KindGroup, Count: count})
	}
	for name, tc := range map[string]struct {
		good, bad []access
	}{
		"a raise is lost": {
			good: []access{raise(1, 2, driver.Applied), raise(1, 2, driver.Applied), shows(3, 4, 2)},
			bad:  []access{raise(1, 2, driver.Applied), raise(1, 2, driver.Applied), shows(3, 4, 1)},
		},
		"a raise counts twice": {
			good: []access{raise(1, 2, driver.Applied), raise(1, 2, driver.Unknown), shows(3, 4, 2)},
			bad:  []access{raise(1, 2, driver.Applied), shows(3, 4, 2)},
		},
		"it goes back": {
			good: []access{raise(1, 2, driver.Unknown), shows(3, 4, 0), shows(5, 6, 1)},
			bad:  []access{raise(1, 2, driver.Unknown), shows(3, 4, 1), shows(5, 6, 0)},
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
		"meets the condition":                 put(1, 2, 1, 2, 2, driver.Refused, doc(1, 1)),
		"no document":                         put(1, 2, 1, 2, 2, driver.Refused, nil),
		"is what it wrote":                    put(1, 2, 1, 2, 2, driver.Refused, doc(2, 2)),
		"cannot have come after":              put(1, 2, 1, 5, 2, driver.Overtaken, doc(3, 3)),
		"and the document as found meets the": put(1, 2, 0, 5, 2, driver.Refused, nil),
	} {
		if got := a.problem(); !strings.Contains(got, want) {
			t.Errorf("%v: %q, want %q", a, got, want)
		}
	}
}

// held1 is a run of who with token, from the call of Lock to its end and the word of Unlock.
func held1(who int, token, called, entered, left, freed int64) *run {
	return &run{who: who, token: token, called: called, entered: entered, left: left, freed: freed}
}

// keyOf numbers the runs of a key and makes the calls that started them.
func keyOf(runs []*run, tries ...*try) *lockKey {
	k := &lockKey{key: "g/k", runs: runs, try: tries}
	for i, r := range runs {
		r.n = i + 1
		k.try = append(k.try, &try{span: span{r.called, r.entered}, who: r.who, ok: true, run: r.n, sure: true})
	}
	return k
}

func TestBadLocks(t *testing.T) {
	t.Parallel()
	refused := func(call, end int64) *try { return &try{span: span{call, end}, who: 9, sure: true} }
	use1 := func(r *run, call, end, token int64) *run {
		r.uses = append(r.uses, use{span: span{call, end}, token: token})
		return r
	}
	advance := func(r *run, call, end, token int64) *run {
		r.uses = append(r.uses, use{span: span{call, end}, token: token, advanced: true})
		return r
	}
	for name, tc := range map[string]struct{ good, bad *lockKey }{
		"two holders": {
			good: keyOf([]*run{held1(1, 5, 1, 2, 10, 0), held1(2, 6, 3, 12, 13, 0)}),
			bad:  keyOf([]*run{held1(1, 5, 1, 2, 10, 0), held1(2, 6, 3, 8, 13, 0)}),
		},
		"two holders, one of whom is killed later": {
			good: keyOf([]*run{held1(1, 5, 1, 2, 7, 0), held1(2, 6, 3, 8, 13, 0)}),
			bad:  keyOf([]*run{held1(1, 5, 1, 2, 9, 0), held1(2, 6, 3, 8, 13, 0)}),
		},
		"the token goes down": {
			good: keyOf([]*run{held1(1, 5, 1, 2, 3, 4), held1(2, 6, 5, 6, 7, 8)}),
			bad:  keyOf([]*run{held1(1, 5, 1, 2, 3, 4), held1(2, 4, 5, 6, 7, 8)}),
		},
		"the same token twice": {
			good: keyOf([]*run{held1(1, 5, 1, 2, 3, 4), held1(1, 6, 5, 6, 7, 8)}),
			bad:  keyOf([]*run{held1(1, 5, 1, 2, 3, 4), held1(1, 5, 5, 6, 7, 8)}),
		},
		"valid after another has it": {
			good: keyOf([]*run{use1(held1(1, 5, 1, 2, 9, 0), 3, 4, 5), held1(2, 6, 5, 10, 11, 0)}),
			bad:  keyOf([]*run{use1(held1(1, 5, 1, 2, 0, 0), 11, 12, 5), use1(held1(2, 6, 5, 6, 10, 0), 7, 8, 6)}),
		},
		"a token not above an advanced one": {
			good: keyOf([]*run{advance(held1(1, 5, 1, 2, 5, 6), 3, 4, 8), held1(2, 9, 7, 8, 9, 0)}),
			bad:  keyOf([]*run{advance(held1(1, 5, 1, 2, 5, 6), 3, 4, 8), held1(2, 7, 7, 8, 9, 0)}),
		},
		"an advance that is not one": {
			good: keyOf([]*run{advance(held1(1, 5, 1, 2, 5, 6), 3, 4, 6)}),
			bad:  keyOf([]*run{advance(held1(1, 5, 1, 2, 5, 6), 3, 4, 5)}),
		},
		"not held, and refused": {
			good: keyOf([]*run{held1(1, 5, 1, 2, 3, 6)}, refused(5, 8)),
			bad:  keyOf([]*run{held1(1, 5, 1, 2, 3, 4)}, refused(5, 8)),
		},
		"refused, after a loss": {
			good: keyOf([]*run{held1(1, 5, 1, 2, 3, 4)}, &try{span: span{5, 8}, who: 9, sure: true, lineage: "next"}),
			bad: keyOf(
				[]*run{held1(1, 5, 1, 2, 3, 4), held1(2, 6, 4, 5, 6, 7)},
				&try{span: span{50, 80}, who: 9, sure: true, lineage: ""},
			),
		},
		"refused, while the one before is gone and another has taken over and let go": {
			good: keyOf([]*run{held1(1, 5, 1, 2, 3, 0)}, refused(50, 80)),
			bad:  keyOf([]*run{held1(1, 5, 1, 2, 3, 0), held1(2, 6, 4, 5, 6, 7)}, refused(50, 80)),
		},
		"refused by anyone who had it once": {
			good: keyOf([]*run{held1(9, 5, 1, 2, 3, 0), held1(2, 6, 4, 5, 6, 7)}, refused(50, 80)),
			bad: keyOf(
				[]*run{held1(9, 5, 1, 2, 3, 0), held1(2, 6, 4, 5, 6, 7), held1(9, 7, 8, 9, 10, 11)}, refused(50, 80),
			),
		},
		"without end": {
			good: keyOf([]*run{held1(1, 5, 1, 2, 3, 0)}),
			bad:  keyOf([]*run{held1(1, 5, 1, 2, 0, 0)}),
		},
		"a run without a record": {
			good: keyOf([]*run{held1(1, 5, 1, 2, 3, 0)}),
			bad:  keyOf([]*run{held1(1, 5, 1, 2, 3, 0)}, &try{span: span{1, 2}, run: 1}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			if found := tc.good.judge(name); len(found) > 0 {
				t.Errorf("the good history is rejected: %s", found[0].text)
			}
			if len(tc.bad.judge(name)) == 0 {
				t.Error("the bad history is accepted")
			}
		})
	}
}

func TestBadValues(t *testing.T) {
	t.Parallel()
	sets := func(call, end, token int64, number int) valueCall {
		return valueCall{span: span{call, end}, valueStep: valueStep{sets: true, number: number, token: token}}
	}
	reads := func(call, end, token int64, number int) valueCall {
		return valueCall{span: span{call, end}, valueStep: valueStep{number: number, token: token}}
	}
	unknown := func(c valueCall) valueCall {
		c.err = errCut
		return c
	}
	for name, tc := range map[string]struct{ good, bad []valueCall }{
		"a stale owner sets it after the new one has read it": {
			good: []valueCall{sets(1, 2, 5, 1), sets(3, 5, 5, 2), reads(3, 4, 6, 2)},
			bad:  []valueCall{sets(1, 2, 5, 1), reads(3, 4, 6, 1), sets(5, 6, 5, 2)},
		},
		"a set of a stale owner is seen only after the new one has read": {
			good: []valueCall{sets(1, 2, 5, 1), unknown(sets(3, 4, 5, 2)), reads(5, 6, 6, 2), reads(7, 8, 6, 2)},
			bad:  []valueCall{sets(1, 2, 5, 1), unknown(sets(3, 4, 5, 2)), reads(5, 6, 6, 1), reads(7, 8, 6, 2)},
		},
		"a stale owner reads": {
			good: []valueCall{sets(1, 2, 5, 1), reads(3, 5, 5, 1), reads(4, 6, 6, 1)},
			bad:  []valueCall{sets(1, 2, 5, 1), reads(3, 4, 6, 1), reads(5, 6, 5, 1)},
		},
		"an acknowledged set is gone": {
			good: []valueCall{sets(1, 2, 5, 1), reads(3, 4, 6, 1)},
			bad:  []valueCall{sets(1, 2, 5, 1), reads(3, 4, 6, 0)},
		},
		"a set happens twice": {
			good: []valueCall{unknown(sets(1, 2, 5, 1)), sets(3, 4, 5, 2), reads(5, 6, 5, 2)},
			bad: []valueCall{
				unknown(sets(1, 2, 5, 1)), reads(3, 4, 5, 1), sets(5, 6, 5, 2), reads(7, 8, 5, 2), reads(9, 10, 5, 1),
			},
		},
		"one that no one has set": {
			good: []valueCall{reads(1, 2, 5, 0)},
			bad:  []valueCall{reads(1, 2, 5, -1)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			good, bad := value{calls: tc.good}, value{calls: tc.bad}
			if found := good.judge(name); len(found) > 0 {
				t.Errorf("the good history is rejected: %s", found[0].text)
			}
			if len(bad.judge(name)) == 0 {
				t.Error("the bad history is accepted")
			}
		})
	}
}

// What porcupine rejects is shown as a time line and a picture.
func TestReport(t *testing.T) {
	t.Parallel()
	d := document{
		kind: driver.KindLock, id: "g/k", history: []access{put(1, 2, 0, 1, 1, driver.Applied, nil), read(3, 4, nil)},
	}
	found := d.judge("lock g/k", database{freshLists: true})
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

// counted is a test that notes whether it failed.
type counted struct {
	testing.TB
	failed int
}

func (c *counted) Error(...any) { c.failed++ }
func (c *counted) Helper()      {}

// A recording that shows too little is wrong, and one that shows enough is not.
func TestBadRecordingShowsTooLittle(t *testing.T) {
	store, way, none := &injected{}, &injected{}, &injected{}
	store.add("server dies")
	for _, kind := range []string{"request lost", "answer lost", "late", "delayed"} {
		way.add(kind)
	}
	for _, tt := range []struct {
		seconds       int
		histories     int64
		store, way    *injected
		wantsFailures int
	}{
		{full, 1000, store, way, 0},
		{full, 999, store, way, 1},
		{10 * full, 1000, store, way, 0},
		{long, 83, store, way, 0},
		{long, 82, store, way, 1},
		{long, 1000, none, way, 1},
		{long, 1000, store, none, 4},
		{8, 50, store, none, 0},
		{8, 49, store, way, 1},
	} {
		c := &counted{TB: t}
		if enough(c, tt.seconds, tt.histories, tt.store, tt.way); c.failed != tt.wantsFailures {
			t.Errorf("%+v: %d failures, want %d", tt, c.failed, tt.wantsFailures)
		}
	}
}
