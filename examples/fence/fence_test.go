package fence_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	_ "github.com/go-sql-driver/mysql" // the driver called mysql
	_ "github.com/jackc/pgx/v5/stdlib" // the driver called pgx

	example "github.com/shardctl/shardctl/examples/fence"
	"github.com/shardctl/shardctl/pkg/fence"
	"github.com/shardctl/shardctl/pkg/fence/fencesql"
	"github.com/shardctl/shardctl/test/suites"
	"github.com/shardctl/shardctl/test/testprocess"
	"github.com/shardctl/shardctl/test/testservers"
)

func TestMain(m *testing.M) { os.Exit(testprocess.Main(m)) }

func open(t *testing.T, driver, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// Go and Python write to the same tables, and refuse each other's old tokens.
func TestPython(t *testing.T) {
	testprocess.NeedPrograms(t, suites.Clients, "make clients-install", "python3")
	path := filepath.Join(t.TempDir(), "offsets.db")
	save := func(position, token string) (said string, status int) {
		cmd := exec.CommandContext(t.Context(), "python3", "fence.py", path, "a", position, token)
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		return string(out), cmd.ProcessState.ExitCode()
	}
	if said, status := save("10", "7"); status != 0 {
		t.Fatalf("status %d: %s", status, said)
	}
	db := open(t, "sqlite", path)
	offsets, err := example.NewOffsets(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	if err := offsets.Save(t.Context(), "a", 9, 6); !errors.Is(err, fence.ErrOld) {
		t.Errorf("Go with the token 6: %v, want ErrOld", err)
	}
	if err := offsets.Save(t.Context(), "a", 11, 9); err != nil {
		t.Error(err)
	}
	if said, status := save("10", "8"); status != 3 || !strings.Contains(said, "token 8 of topics/a is old") {
		t.Errorf("Python with the token 8: status %d: %s", status, said)
	}
	var position int
	if err := db.QueryRowContext(t.Context(), "SELECT position FROM offsets").Scan(&position); err != nil ||
		position != 11 {
		t.Errorf("position %d, %v; want 11", position, err)
	}
}

// Nothing here brings a driver of JDBC, so it is not run.
func TestJavaCompiles(t *testing.T) {
	testprocess.NeedPrograms(t, suites.Clients, "make clients-install", "javac")
	out, err := exec.CommandContext(t.Context(), "javac", "-Xlint:all", "-Werror", "-d", t.TempDir(),
		"Fence.java").CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// What stands in the files of SQL decides as the package does, on its tables.
func TestSQL(t *testing.T) {
	t.Run("SQLite", func(t *testing.T) {
		testSQL(t, open(t, "sqlite", filepath.Join(t.TempDir(), "work.db")), "postgresql.sql", fencesql.SQLite)
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		uri := testservers.Shared(t, testservers.KindPostgres).Database()
		testSQL(t, open(t, "pgx", uri), "postgresql.sql", fencesql.PostgreSQL)
	})
	t.Run("MariaDB", func(t *testing.T) {
		u, err := url.Parse(testservers.Shared(t, testservers.KindMariaDB).Database())
		if err != nil {
			t.Fatal(err)
		}
		testSQL(t, open(t, "mysql", fmt.Sprintf("%s@tcp(%s)%s", u.User, u.Host, u.Path)), "mysql.sql", fencesql.MySQL)
	})
}

func testSQL(t *testing.T, db *sql.DB, file string, dialect fencesql.Dialect) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	statements := strings.Split(strings.TrimSpace(regexp.MustCompile(`(?m)^--.*$`).ReplaceAllString(string(text), "")),
		";")
	if _, err := db.ExecContext(t.Context(), statements[0]); err != nil {
		t.Fatal(err)
	}
	table, err := fencesql.New(dialect, "fences")
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		bySQL  bool
		claim  fence.Claim
		passes bool
	}{
		{true, fence.Exclusive("k", 7), true},
		{true, fence.Exclusive("k", 7), true},
		{true, fence.Exclusive("k", 6), false},
		{false, fence.Exclusive("k", 6), false},
		{false, fence.Shared("k", 9), true},
		{true, fence.Exclusive("k", 8), false},
		{true, fence.Exclusive("k", 10), true},
		{false, fence.Shared("k", 9), false},
		{true, fence.Exclusive("other", 1), true},
	} {
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		var passes bool
		if step.bySQL {
			passes = passed(t, tx, statements[1:], step.claim)
		} else {
			err := table.Check(t.Context(), tx, step.claim)
			if err != nil && !errors.Is(err, fence.ErrOld) {
				t.Fatal(err)
			}
			passes = err == nil
		}
		if passes != step.passes {
			t.Errorf("%s, by SQL %t: passes %t", step.claim, step.bySQL, passes)
		}
		end := tx.Rollback
		if passes {
			end = tx.Commit
		}
		if err := end(); err != nil {
			t.Fatal(err)
		}
	}
}

// passed says whether the statements pass a claim: each writes a row, or reads 1.
func passed(t *testing.T, tx *sql.Tx, statements []string, c fence.Claim) bool {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	for i, statement := range statements {
		statement = strings.NewReplacer(":key", "'"+c.Key+"'", ":token",
			fmt.Sprint(c.Token)).Replace(strings.TrimSpace(statement))
		switch {
		case statement == "":
		case strings.HasPrefix(statement, "SELECT"):
			var passes bool
			if err := tx.QueryRowContext(ctx, statement).Scan(&passes); err != nil {
				t.Fatal(err)
			}
			if !passes {
				return false
			}
		default:
			result, err := tx.ExecContext(ctx, statement)
			if err != nil {
				t.Fatalf("statement %d: %v", i, err)
			}
			if n, err := result.RowsAffected(); err != nil {
				t.Fatal(err)
			} else if n == 0 && strings.Contains(statement, "WHERE f.") {
				return false
			}
		}
	}
	return true
}
