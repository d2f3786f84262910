package docs_test

import (
	"context"
	"database/sql"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/test/pageblock"
	"github.com/shardctl/shardctl/test/testservers"
)

// Columns are explained, and the view that a page suggests to people shows the key that a process owns, and not the one
// that it has released.
func TestViewsOfOwners(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "store.db")
		checkOwners(t, "sqlite:"+path, "sqlite", path, `SELECT sql FROM sqlite_schema WHERE name = 'default_locks'`)
	})
	t.Run("postgresql", func(t *testing.T) {
		uri := testservers.Shared(t, testservers.KindPostgres).Database()
		checkOwners(t, uri, "pgx", uri, `SELECT col_description('default_locks'::regclass, 2)`)
	})
	t.Run("mysql", func(t *testing.T) {
		server := testservers.Shared(t, testservers.KindMariaDB)
		uri := server.Database()
		u, err := url.Parse(uri)
		if err != nil {
			t.Fatal(err)
		}
		user := u.User.Username() // of that name is the database, too
		grant := "GRANT CREATE VIEW ON " + user + ".* TO " + user
		if err := testservers.MariaDBExec(t.Context(), server.Server(), grant); err != nil {
			t.Fatal(err)
		}
		c := mysql.NewConfig()
		c.Net, c.Addr, c.User, c.DBName = "tcp", u.Host, user, user
		c.Passwd, _ = u.User.Password()
		checkOwners(t, uri, "mysql", c.FormatDSN(), `SELECT column_comment FROM information_schema.columns `+
			`WHERE table_schema = database() AND table_name = 'default_locks' AND column_name = 'rev'`)
	})
}

func checkOwners(t *testing.T, uri, driver, dsn, comment string) {
	t.Helper()
	ctx := t.Context()
	s, err := store.Open(ctx, store.Config{URI: uri})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close(context.WithoutCancel(ctx)) }()
	e, err := elect.New(elect.Config{Store: s, Member: elect.Member{Instance: "replica-a"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Start(ctx); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close(context.WithoutCancel(ctx)) }()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	db.SetMaxOpenConns(1) // a view may be that of a connection
	var explained string
	err = db.QueryRowContext(ctx, comment).Scan(&explained)
	if err != nil || !strings.Contains(explained, "fencing token") {
		t.Errorf("the column of the revision: %q, %v; want what it means", explained, err)
	}
	_, name, _ := strings.Cut(t.Name(), "/")
	for _, b := range pageblock.Blocks(name, read(t, "stores/"+name+".md")) {
		if strings.Contains(b.Text, "VIEW owners") {
			if _, err := db.ExecContext(ctx, b.Text); err != nil {
				t.Fatal(err)
			}
		}
	}
	wait := func(ctx context.Context, _ *elect.Lease) error { <-ctx.Done(); return nil }
	released, owned := elect.NewKey("g", "released"), elect.NewKey("g", "owned")
	for _, key := range []elect.Key{released, owned} {
		if ok, err := e.Lock(ctx, key, wait); err != nil || !ok {
			t.Fatal(ok, err)
		}
	}
	if err := e.Unlock(ctx, released); err != nil {
		t.Fatal(err)
	}
	holder, ok, err := e.Holder(ctx, owned)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	var task, instance, since string
	var state sql.NullString
	var token int64
	row := db.QueryRowContext(ctx, `SELECT task, instance, state, token, since FROM owners`)
	if err := row.Scan(&task, &instance, &state, &token, &since); err != nil {
		t.Fatal(err)
	}
	if task != "g/owned" || instance != "replica-a" || token != holder.Token || since == "" {
		t.Errorf("task %s, instance %s, token %d, since %s; want g/owned, replica-a, %d", task, instance, token, since,
			holder.Token)
	}
	var rows int
	if err := db.QueryRowContext(ctx, `SELECT count(*) FROM owners`).Scan(&rows); err != nil || rows != 1 {
		t.Errorf("%d rows, %v; want the one that is owned", rows, err)
	}
}
