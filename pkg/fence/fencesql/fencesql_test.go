package fencesql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/pkg/fence"
	"github.com/shardctl/shardctl/pkg/fence/fencesql"
	"github.com/shardctl/shardctl/pkg/fence/fencetest"
	"github.com/shardctl/shardctl/test/stale"
	"github.com/shardctl/shardctl/test/testprocess"
	"github.com/shardctl/shardctl/test/testservers"
)

func TestMain(m *testing.M) {
	stale.Main(kinds)
	os.Exit(testprocess.Main(m))
}

// eachDatabase runs a test on SQLite, and on the servers where they are asked for.
func eachDatabase(t *testing.T, test func(t *testing.T, newTarget func(t *testing.T) string)) {
	t.Helper()
	t.Run("SQLite", func(t *testing.T) {
		test(t, func(t *testing.T) string {
			t.Helper()
			return "sqlite:" + filepath.Join(t.TempDir(), "work.db")
		})
	})
	for _, kind := range []testservers.Kind{testservers.KindPostgres, testservers.KindMariaDB} {
		t.Run(string(kind), func(t *testing.T) {
			server := testservers.Shared(t, kind)
			test(t, func(t *testing.T) string { t.Helper(); return server.Database() })
		})
	}
}

// hex keeps keys of the suite out of the collations of the test's own tables.
func hex(key string) string { return fmt.Sprintf("%x", key) }

func opened(t *testing.T, target string) *database {
	t.Helper()
	d, err := open(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.db.Close() })
	return d
}

func TestTable(t *testing.T) {
	eachDatabase(t, func(t *testing.T, newTarget func(t *testing.T) string) {
		t.Helper()
		fencetest.Run(t, func(t *testing.T) fencetest.Subject {
			t.Helper()
			target := newTarget(t)
			return subject(t, target)
		})
	})
}

func subject(t *testing.T, target string) fencetest.Subject {
	t.Helper()
	d := opened(t, target)
	return fencetest.Subject{
		Write: func(ctx context.Context, c fence.Claim, entry string) error {
			return d.fenced(ctx, c,
				"INSERT INTO log (place, log_key, entry) SELECT COALESCE(MAX(place), 0) + 1, ?, ? FROM log", hex(c.Key),
				entry)
		},
		Log: func(ctx context.Context, key string) (log []string, err error) {
			rows, err := d.db.QueryContext(ctx, d.param("SELECT entry FROM log WHERE log_key = ? ORDER BY place"),
				hex(key))
			if err != nil {
				return nil, err
			}
			defer func() { _ = rows.Close() }()
			for rows.Next() {
				var entry string
				if err := rows.Scan(&entry); err != nil {
					return nil, err
				}
				log = append(log, entry)
			}
			return log, rows.Err()
		},
		Fence:  d.fences.On(d.db),
		Reopen: func() fencetest.Subject { return subject(t, target) },
	}
}

func TestStaleOwnerIsRefused(t *testing.T) {
	eachDatabase(t, func(t *testing.T, newTarget func(t *testing.T) string) {
		t.Helper()
		stale.Run(t, kinds, "sql", newTarget(t))
	})
}

// What is done in the transaction of Do goes with it.
func TestWorkIsInTheTransaction(t *testing.T) {
	eachDatabase(t, func(t *testing.T, newTarget func(t *testing.T) string) {
		t.Helper()
		d := opened(t, newTarget(t))
		f, broken := d.fences.On(d.db), errors.New("broken")
		write := func(token int64, fails error) error {
			return f.Do(t.Context(), fence.Exclusive("k", token), func(ctx context.Context) error {
				if _, err := fencesql.Tx(ctx).ExecContext(ctx,
					"INSERT INTO reports (id, text) VALUES (1, 'x')"); err != nil {
					return err
				}
				return fails
			})
		}
		if err := write(9, broken); !errors.Is(err, broken) {
			t.Fatal(err)
		}
		if text, err := d.Read(t.Context()); !errors.Is(err, sql.ErrNoRows) {
			t.Errorf("there stands %q, %v", text, err)
		}
		if err := write(7, nil); !errors.Is(err, fence.ErrOld) { // the work of 9 has left nothing, but it was seen
			t.Errorf("7 after 9: %v", err)
		}
		if err := write(9, nil); err != nil {
			t.Error(err)
		}
		if text, err := d.Read(t.Context()); text != "x" {
			t.Errorf("there stands %q, %v", text, err)
		}
	})
	if fencesql.Tx(t.Context()) != nil {
		t.Error("a transaction outside of Do")
	}
}

func TestNewSaysWhatIsAllowed(t *testing.T) {
	for _, name := range []string{"", "a b", "a;", "1a", "a.b.c", `"a"`, strings.Repeat("a", 64)} {
		if _, err := fencesql.New(fencesql.SQLite, name); err == nil {
			t.Errorf("table %q was taken", name)
		}
	}
	if _, err := fencesql.New(0, "fences"); err == nil ||
		!strings.Contains(err.Error(), "must be PostgreSQL, MySQL or SQLite") {
		t.Errorf("dialect 0: %v", err)
	}
	if table, err := fencesql.New(fencesql.PostgreSQL, "app.fences"); err != nil ||
		!strings.Contains(table.Schema(), "app.fences") {
		t.Errorf("app.fences: %v", err)
	}
}

// A transaction that has read before sees what was there then. The check must see what is there now.
func TestCheckSeesWhatWasCommittedMeanwhile(t *testing.T) {
	eachDatabase(t, func(t *testing.T, newTarget func(t *testing.T) string) {
		t.Helper()
		target := newTarget(t)
		if strings.HasPrefix(target, "sqlite:") {
			t.Skip("its transactions begin with the lock of the file")
		}
		d := opened(t, target)
		if err := d.fenced(t.Context(), fence.Exclusive("k", 7), "DELETE FROM reports"); err != nil {
			t.Fatal(err)
		}
		tx, err := d.db.BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback() }()
		var n int
		if err := tx.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM fences").Scan(&n); err != nil || n != 1 {
			t.Fatal(n, err)
		}
		if err := d.fenced(t.Context(), fence.Exclusive("k", 9), "DELETE FROM reports"); err != nil {
			t.Fatal(err)
		}
		// PostgreSQL refuses the transaction itself.
		if err := d.fences.Check(t.Context(), tx, fence.Exclusive("k", 7)); err == nil {
			t.Error("an old token passed")
		}
	})
}
