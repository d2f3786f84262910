package record

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/shardctl/shardctl/pkg/store/driver"
)

// FuzzDocuments: whatever a document says, reading it panics nowhere, and what was refused is named. What was read can
// be written, by a store's own rules, and reads the same again. A change that stores refuse would be repeated for ever,
// and others with it.
func FuzzDocuments(f *testing.F) {
	seeds := []driver.Doc{
		Session{
			ID: "s", Rev: 3, Heartbeat: 7, State: Live, Lease: 4 * time.Second, Instance: "a",
			Remote: map[Key]int64{"g/k": 5}, Died: 9, Cause: "c",
		}.Doc(),
		Member{
			Session: "s", Rev: 1, Instance: "a", Caps: map[string]int{"g": 2}, Labels: map[string]string{"a": "b"},
			LeaseMS: 4000, Address: "a:8080", AppAddress: "a:9000",
			Application: &Application{
				ID: "u", PID: 7, Message: "m", Since: 5, Status: map[string]string{"a": "b"},
				Stopping: map[string]int64{"g/k": 9},
			},
		}.Doc(driver.WriterID{Session: "s", Seq: 1}),
		Lock{
			Key: "g/k", Rev: 3, Session: "s", Next: "n", Token: 3, Reason: ReasonCreated,
			Status: TaskStatus{State: "done", Outcome: &RunOutcome{ExitCode: 1}},
		}.Doc(),
		Override{
			Kind: OverridePin, Scope: ScopeTask, Name: "g/k", Rev: 1, To: "a", Strict: true, At: 5,
		}.Doc(driver.WriterID{Session: "s", Seq: 2}),
		Event{ID: "1-a", Time: 5, Type: "Moved", Key: "g/k", Token: 4}.Doc(driver.WriterID{Session: "s", Seq: 3}),
	}
	runs := Runs{Key: "g/k", Rev: 2}
	runs.Add(Run{Tick: 5, Start: 5, End: 7, Result: RunFailed, Error: "oh", Output: "oh"})
	seeds = append(seeds, runs.Doc(driver.WriterID{Session: "s", Seq: 5}), MutexDoc(MutexID("m"), mutexOfAll(), driver.WriterID{Session: "s", Seq: 4}, 7))
	for _, d := range seeds {
		f.Add(d.ID, d.Rev, d.Session, d.Next, d.State, d.Count, string(d.Body))
	}
	for _, body := range []string{
		"", "null", "[]", "7", "no JSON", `{"leaseMs":-1,"remote":{"g/k":-5}}`, `{"leaseMs":9e18}`,
		`{"remote":{"g/k":9000000000000000000},"died":-1}`,
		`{"instance":"a","application":{"since":-1}}`, `{"application":{"status":{"a":"<"},"stopping":{"g/k":9e15}}}`,
		`{"caps":{"g":-1},"maxTasks":-1}`, `{"status":{"outcome":{"at":9000000000000000000,"error":"<<<"}}}`,
		`{"to":7}`,
		`{"limit":-1,"holders":[{"session":"<","claim":"c","token":-1},{"slot":-1,"until":9e15}],"queue":[{}]}`,
		`{"holders":[{"session":"s","claim":"c","slot":-1}],"notBefore":{"untilMs":-1,"forMs":9e18}}`,
		`{"queue":[{"session":"a b","claim":"c"}],"notBefore":{"untilMs":9e15,"token":-1}}`,
		`{"exclusive":-1,"shared":9e15}`,
		`{"instance":"` + strings.Repeat("<", driver.MaxText) + `"}`,
		`{"cause":"` + strings.Repeat("x", driver.MaxText+1) + `"}`,
	} {
		f.Add("g/k", int64(1), "\xff", strings.Repeat("n", driver.MaxText+1), "zombie", int64(-7), body)
	}
	f.Fuzz(func(t *testing.T, id string, rev int64, session, next, state string, count int64, body string) {
		d := driver.Doc{
			ID: id, Rev: rev, Session: session, Next: next, State: state, Count: count, Group: Key(id).Group(),
			Body: []byte(body),
		}
		for _, kind := range driver.Kinds() {
			d.Kind = kind
			readAgain(t, d)
		}
	})
}

// readAgain reads d as what it is, writes that and reads it again.
func readAgain(t *testing.T, d driver.Doc) {
	t.Helper()
	writer := driver.WriterID{Session: "me", Seq: 1}
	switch d.Kind {
	case driver.KindSession:
		s, err := SessionFrom(d)
		named(t, d, err, "body", "leaseMs", "instance", "remote", "cause", "died", "clock")
		s.Rev, s.WriterID, s.State = s.Rev+1, writer, Dead
		same(t, d, s, s.Doc(), SessionFrom)
	case driver.KindMember:
		m, err := MemberFrom(d)
		named(t, d, err, "body", "instance", "leaseMs", "opened", "maxTasks", "caps")
		if err == nil && m.Validate() == nil {
			same(t, d, m, m.Doc(writer), MemberFrom)
		}
	case driver.KindLock:
		l, err := LockFrom(d)
		named(t, d, err, "body", "session", "next", "instance", "from", "reason", "message", "token", "since", "status")
		l.Rev, l.WriterID = l.Rev+1, writer
		same(t, d, l, l.Doc(), LockFrom)
	case driver.KindOverride:
		w, err := OverrideFrom(d)
		named(t, d, err, "body", "id", "to", "by", "reason", "at")
		same(t, d, w, w.Doc(writer), OverrideFrom)
	case driver.KindEvent:
		_, err := EventFrom(d)
		named(t, d, err, "body", "time")
	case driver.KindMutex:
		m, err := MutexFrom(d)
		named(t, d, err, "body", "next", "limit", "holders", "queue", "notBefore", "exclusive", "shared")
		m.Rev++
		same(t, d, m, MutexDoc(d.ID, m, writer, 5), MutexFrom)
	case driver.KindValue:
		r, err := RunsFrom(d)
		named(t, d, err, "body", "error", "instance", "tick", "start", "end", "token", "output")
		r.Rev++
		same(t, d, r, r.Doc(writer), RunsFrom)
	case driver.KindGroup, driver.KindRequest:
	}
}

// named says that an error names one of the fields.
func named(t *testing.T, d driver.Doc, err error, fields ...string) {
	t.Helper()
	if err == nil {
		return
	}
	for _, field := range fields {
		if strings.Contains(err.Error(), field+": ") || strings.Contains(err.Error(), field+".") {
			return
		}
	}
	t.Errorf("%s %q: error %q names none of %v", d.Kind, d.Body, err, fields)
}

// same says that what was read of d can be written, where anybody could write d at all, and reads the same again.
func same[T any](t *testing.T, d driver.Doc, read T, again driver.Doc, from func(driver.Doc) (T, error)) {
	t.Helper()
	if driver.CheckFound(d) != nil || d.Kind == driver.KindSession && !utf8.ValidString(d.State) {
		return
	}
	if again.WriterID.Session == "" || again.Rev <= 0 {
		t.Fatalf("%s: %+v", d.Kind, again)
	}
	if d.Kind != driver.KindLock || len(Key(d.ID).Group()) <= driver.MaxText {
		if err := driver.ValidateChanges([]driver.Change{{IfRev: again.Rev - 1, Doc: again}}); err != nil {
			t.Errorf("%s %q: what was read of it cannot be written: %v", d.Kind, d.Body, err)
		}
	}
	got, err := from(again)
	if err != nil {
		t.Errorf("%s %q: written %q, and refused: %v", d.Kind, d.Body, again.Body, err)
	}
	if a, b := canon(t, read), canon(t, got); a != b {
		t.Errorf("%s %q: read as\n%s\nand again as\n%s", d.Kind, d.Body, a, b)
	}
}

// canon is a value as text in which nil and empty are one.
func canon(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(reflect.TypeOf(v), err)
	}
	return strings.NewReplacer(`:null`, ``, `:{}`, ``).Replace(string(text))
}
