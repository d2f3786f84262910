package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/pkg/elect/store"
)

// When there is no more room, changes are of unknown outcome, what was there stays, and writing goes on when there is room again.
func TestFull(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}()
	limitPages(t, s, 60)
	body := []byte(`{"a":"` + strings.Repeat("x", 4000) + `"}`)
	value := func(i int) store.Change {
		return store.Change{Doc: store.Doc{
			Kind: store.KindValue, ID: fmt.Sprint("g/", i), Rev: 1, WriterID: store.WriterID{Session: "s", Seq: int64(i)}, Body: body,
		}}
	}
	written, full := 0, false
	for ; written < 200 && !full; written++ {
		outs, err := s.Apply(t.Context(), value(2*written), value(2*written+1))
		if err != nil {
			t.Fatal(err)
		}
		for _, out := range outs {
			switch out.Status {
			case store.Applied:
			case store.Unknown:
				full = true
				if !errors.Is(out.Err, store.ErrUnavailable) || !strings.Contains(out.Err.Error(), path) {
					t.Fatalf("got %v, want ErrUnavailable and the path", out.Err)
				}
			default:
				t.Fatalf("got %+v", out)
			}
		}
	}
	if !full {
		t.Fatal("the limit was never met")
	}
	res, err := s.List(t.Context(), store.KindValue, store.Query{CountOnly: true})
	if err != nil || res.Total != int64(2*(written-1)) {
		t.Fatalf("%d documents, %v; want the %d that were acknowledged", res.Total, err, 2*(written-1))
	}
	limitPages(t, s, 1<<30)
	outs, err := s.Apply(t.Context(), value(2*written-2), value(2*written-1))
	if err != nil || outs[0].Status != store.Applied || outs[1].Status != store.Applied {
		t.Fatalf("with room again: %+v, %v", outs, err)
	}
}

// limitPages makes SQLite treat the file as full on the writer's connection.
func limitPages(t *testing.T, s *Store, pages int) {
	t.Helper()
	w := <-s.writer
	defer func() { s.writer <- w }()
	if err := s.connect(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	if _, err := w.conn.ExecContext(t.Context(), fmt.Sprintf("PRAGMA max_page_count=%d", pages)); err != nil {
		t.Fatal(err)
	}
}

// A file whose pages are rubbish gives errors that name it.
func TestCorrupt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := 100; i < len(content); i++ {
		content[i] = 0xa5
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = Open(t.Context(), path, Options{})
	if !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), path) {
		t.Fatalf("got %v, want ErrInvalid and the path", err)
	}
}

// A watcher that is further behind than the log of hints reaches is told to look at everything.
func TestHintsDropped(t *testing.T) {
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "store.db"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}()
	w := &watch{store: s, session: "me", hints: make(chan store.Notification, watchBuffer)}
	if err := w.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer w.disconnect()
	var changes []store.Change
	for i := range hintsKept + hintsKept/5 {
		changes = append(changes, store.Change{Op: store.Increment, Doc: store.Doc{Kind: store.KindGroup, ID: fmt.Sprint(i)}})
	}
	if _, err := s.Apply(t.Context(), changes...); err != nil {
		t.Fatal(err)
	}
	oldest, newest, err := w.bounds(t.Context())
	if err != nil || oldest <= 1 || newest-oldest > hintsKept+hintsKept/10 {
		t.Fatalf("the log holds lines %d to %d (%v), want about %d", oldest, newest, err, hintsKept)
	}
	if err := w.look(t.Context()); err != nil {
		t.Fatal(err)
	}
	if h := <-w.hints; !h.Resync || len(w.hints) != 0 {
		t.Fatalf("got %+v and %d more, want one Resync", h, len(w.hints))
	}
	// From there on it is told exactly, and nothing twice.
	if _, err := s.Apply(t.Context(), changes[0]); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := w.look(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if h := <-w.hints; h.ID != "0" || h.Doc == nil || h.Doc.Count != 2 || len(w.hints) != 0 {
		t.Fatalf("got %+v and %d more, want the group", h, len(w.hints))
	}
}

// Heartbeats are no hints: an idle cluster costs a watcher one look into shared memory per interval.
func TestBeatsAreNoHints(t *testing.T) {
	session := func(state string) *store.Doc { return &store.Doc{Kind: store.KindSession, ID: "a", State: state} }
	lock := func(next string) *store.Doc { return &store.Doc{Kind: store.KindLock, ID: "g/a", Next: next} }
	tests := map[string]struct {
		old, d *store.Doc
		want   bool
	}{
		"beat":              {session("live"), session("live"), false},
		"state":             {session("live"), session("dead"), true},
		"new session":       {nil, session("live"), true},
		"removed session":   {session("dead"), nil, true},
		"claim":             {nil, lock(""), false},
		"hand-over":         {lock(""), lock("b"), true},
		"claim of the next": {lock("b"), lock(""), false},
		"wish removed":      {&store.Doc{Kind: store.KindOverride, ID: "pause/g/a"}, nil, true},
		"member":            {nil, &store.Doc{Kind: store.KindMember, ID: "a"}, false},
	}
	for name, tt := range tests {
		if got := worthHint(tt.old, tt.d); got != tt.want {
			t.Errorf("%s: got %t, want %t", name, got, tt.want)
		}
	}
}
