package sqlstore_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/sqlstore"
	"github.com/shardctl/shardctl/pkg/store/sqlite"
)

// When the disk is full, changes are of unknown outcome, what was there stays, and writing goes on when there is
// space again.
func TestFull(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
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
	value := func(i int) driver.Change {
		return driver.Change{Doc: driver.Doc{
			Kind: driver.KindValue, ID: fmt.Sprint("g/", i), Rev: 1,
			WriterID: driver.WriterID{Session: "s", Seq: int64(i)}, Body: body,
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
			case driver.Applied:
			case driver.Unknown:
				full = true
				if !errors.Is(out.Err, driver.ErrUnavailable) || !strings.Contains(out.Err.Error(), path) {
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
	res, err := s.List(t.Context(), driver.KindValue, driver.Query{CountOnly: true})
	if err != nil || res.Total != int64(2*(written-1)) {
		t.Fatalf("%d documents, %v; want the %d that were acknowledged", res.Total, err, 2*(written-1))
	}
	limitPages(t, s, 1<<30)
	outs, err := s.Apply(t.Context(), value(2*written-2), value(2*written-1))
	if err != nil || outs[0].Status != driver.Applied || outs[1].Status != driver.Applied {
		t.Fatalf("with space again: %+v, %v", outs, err)
	}
}

// limitPages makes SQLite treat the file as full on the writer's connection.
func limitPages(t *testing.T, s driver.Store, pages int) {
	t.Helper()
	if err := sqlstore.Of(s).OnWriter(t.Context(), fmt.Sprintf("PRAGMA max_page_count=%d", pages)); err != nil {
		t.Fatal(err)
	}
}

// A watcher that is further behind than the log of notifications reaches is asked to look at everything.
func TestNotificationsDropped(t *testing.T) {
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "store.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}()
	w, err := sqlstore.Of(s).NewWatch(t.Context(), driver.Interest{Session: "me"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Disconnect()
	var changes []driver.Change
	for i := range sqlstore.LogKept + sqlstore.LogKept/5 {
		changes = append(
			changes, driver.Change{Op: driver.Increment, Doc: driver.Doc{Kind: driver.KindGroup, ID: fmt.Sprint(i)}},
		)
	}
	if _, err := s.Apply(t.Context(), changes...); err != nil {
		t.Fatal(err)
	}
	oldest, newest, err := w.Bounds(t.Context())
	if err != nil || oldest <= 1 || newest-oldest > sqlstore.LogKept+sqlstore.LogKept/10 {
		t.Fatalf("the log holds lines %d to %d (%v), want about %d", oldest, newest, err, sqlstore.LogKept)
	}
	if err := w.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(*w.Events) != 1 || !(*w.Events)[0].Resync {
		t.Fatalf("got %+v, want one Resync", *w.Events)
	}
	// From there on it is informed exactly, and nothing twice.
	if _, err := s.Apply(t.Context(), changes[0]); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := w.Look(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if len(*w.Events) != 2 {
		t.Fatalf("got %+v, want one more", *w.Events)
	}
	if e := (*w.Events)[1]; e.About.ID != "0" || e.Doc == nil || e.Doc.Count != 2 {
		t.Fatalf("got %+v, want the group", e)
	}
}
