//go:build unix

package storecopy_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/internal/storecopy"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/test/testservers"
)

// edited are stores in which a test can edit a document so that no one can read it, by the URI's scheme.
func edited(t *testing.T) map[string]func(t *testing.T) (uri string, spoil func(kind driver.Kind, id string) error) {
	t.Helper()
	return map[string]func(t *testing.T) (string, func(driver.Kind, string) error){
		"sqlite": func(t *testing.T) (string, func(driver.Kind, string) error) {
			t.Helper()
			path := filepath.Join(t.TempDir(), "from.db")
			return "sqlite:" + path, func(kind driver.Kind, id string) error {
				db, err := sql.Open("sqlite", path)
				if err != nil {
					return err
				}
				_, err = db.ExecContext(t.Context(), "UPDATE default_"+kind.Info().Plural+" SET rev = 0 WHERE id = ?",
					id)
				return errors.Join(err, db.Close())
			}
		},
		"redis": func(t *testing.T) (string, func(driver.Kind, string) error) {
			t.Helper()
			uri := testservers.Shared(t, testservers.KindRedis).Database()
			o, err := redis.ParseURL(uri)
			if err != nil {
				t.Fatal(err)
			}
			c := redis.NewClient(o)
			t.Cleanup(func() { _ = c.Close() })
			return uri, func(kind driver.Kind, id string) error {
				return c.HSet(t.Context(), "shardctl:{default}:"+kind.Info().Plural, id, "by hand").Err()
			}
		},
	}
}

// A source with documents that no one can read is refused before anything is marked. Each of them is named. When they
// are gone the rest is copied whole.
func TestUnreadableDocumentsAreRefused(t *testing.T) {
	for name, prepare := range edited(t) {
		t.Run(name, func(t *testing.T) {
			uri, spoil := prepare(t)
			from, to := open(t, uri, ""), open(t, "sqlite:"+filepath.Join(t.TempDir(), "to.db"), "")
			fill(t, from.Store, 1000)
			want := map[driver.Kind][]string{driver.KindValue: {"g/v0007", "g/v0199", "g/v0999"}, driver.KindLock: {"g/a"}}
			for kind, ids := range want {
				for _, id := range ids {
					if err := spoil(kind, id); err != nil {
						t.Fatal(err)
					}
				}
			}
			for _, again := range []string{"", " again"} {
				steps, err := refused(t, from, to)
				if !strings.Contains(err.Error(), "holds 4 documents that cannot be read") || len(steps) != 4 {
					t.Errorf("copy%s: %v, and %q; want one step for each of four", again, err, steps)
				}
				for kind, ids := range want {
					for _, id := range ids {
						if !slices.ContainsFunc(steps, func(step string) bool {
							return strings.HasPrefix(step, fmt.Sprintf("cannot read %s %q (", kind, id))
						}) {
							t.Errorf("copy%s: %s %s is not named in %q", again, kind, id, steps)
						}
					}
				}
			}
			if err := record.CheckMoved(t.Context(), from); err != nil {
				t.Errorf("the source is marked: %v", err)
			}
			if all := kept(t, to.Store); all != 0 {
				t.Errorf("%d documents are at the target", all)
			}
			for kind, ids := range want {
				for i, id := range ids { // a creation takes their place
					put(t, from.Store, driver.Doc{
						Kind: kind, ID: id, Group: "g", Rev: int64(5000 + i),
						WriterID: driver.WriterID{Session: "repair", Seq: int64(i)},
					})
				}
			}
			report, err := storecopy.Copy(t.Context(), storecopy.Options{From: from, To: to})
			if err != nil || report.Documents["values"] != 1000 || report.Documents["locks"] != 1 {
				t.Errorf("copied %v, %v; want 1000 values and a lock", report.Documents, err)
			}
		})
	}
}

// Where somebody edits the source while a copy is cut off, it does not go on without the document. A target with such a
// document is not empty.
func TestUnreadableDocumentsLater(t *testing.T) {
	uri, spoil := edited(t)["sqlite"](t)
	from, to := open(t, uri, ""), open(t, "sqlite:"+filepath.Join(t.TempDir(), "to.db"), "")
	fill(t, from.Store, 10)
	_, err := storecopy.Copy(t.Context(), storecopy.Options{From: from, To: side(to.Name, &killed{to.Store, 2})})
	if !errors.Is(err, errKilled) || !errors.Is(err, storecopy.ErrUnfinished) {
		t.Fatalf("%v, want a copy that was cut off", err)
	}
	if err := spoil(driver.KindValue, "g/v0003"); err != nil {
		t.Fatal(err)
	}
	steps, err := refused(t, from, to)
	if !errors.Is(err, storecopy.ErrUnfinished) || len(steps) != 1 || !strings.Contains(steps[0], "g/v0003") {
		t.Errorf("%v, %q; want that the copy is not finished, and the document", err, steps)
	}

	other := open(t, "sqlite:"+filepath.Join(t.TempDir(), "other.db"), "")
	fill(t, other.Store, 1)
	uri, spoil = edited(t)["sqlite"](t)
	third := open(t, uri, "")
	put(t, third.Store, driver.Doc{
		Kind: driver.KindLock, ID: "g/b", Rev: 1,
		WriterID: driver.WriterID{Session: "w", Seq: 1},
	})
	if err := spoil(driver.KindLock, "g/b"); err != nil {
		t.Fatal(err)
	}
	if _, err := refused(t, other, third); !strings.Contains(err.Error(), `cannot be read, such as lock "g/b"`) {
		t.Errorf("%v, want that the target holds what cannot be read", err)
	}
}

// refused copies, wants that to be refused, and returns what it said.
func refused(t *testing.T, from, to storecopy.Side) (steps []string, err error) {
	t.Helper()
	o := storecopy.Options{From: from, To: to, Progress: func(step string) { steps = append(steps, step) }}
	report, err := storecopy.Copy(t.Context(), o)
	if !errors.Is(err, storecopy.ErrRefused) {
		t.Fatalf("copied %v, %v, %q; want ErrRefused", report.Documents, err, steps)
	}
	return steps, err
}

// fill writes values, a lock, and the session of a cluster that has ended, whose lease a copy waits for.
func fill(t *testing.T, db store.Store, values int) {
	t.Helper()
	id := func(seq int) driver.WriterID { return driver.WriterID{Session: "w", Seq: int64(seq)} }
	ended := record.Session{ID: "s", Rev: 3, State: record.Dead, Lease: time.Second, WriterID: id(values + 1)}
	changes := []driver.Change{
		{Doc: ended.Doc()},
		{Doc: driver.Doc{Kind: driver.KindLock, ID: "g/a", Group: "g", Rev: 7, WriterID: id(0)}},
	}
	for i := range values {
		changes = append(changes, driver.Change{Doc: driver.Doc{
			Kind: driver.KindValue, ID: fmt.Sprintf("g/v%04d", i), Group: "g", Rev: int64(i + 1),
			WriterID: id(i + 1), Body: []byte("checkpoint"),
		}})
	}
	outs, err := db.Apply(t.Context(), changes...)
	if err != nil || slices.ContainsFunc(outs, func(o driver.Outcome) bool { return o.Status != driver.Applied }) {
		t.Fatal(outs, err)
	}
}

// kept is how many documents a store holds.
func kept(t *testing.T, db store.Store) (all int64) {
	t.Helper()
	for _, kind := range driver.Kinds() {
		found, err := db.List(context.WithoutCancel(t.Context()), kind, driver.Query{CountOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		all += found.Total
	}
	return all
}
