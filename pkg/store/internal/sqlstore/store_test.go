package sqlstore_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/sqlstore"
	"github.com/shardctl/shardctl/pkg/store/sqlite"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/suites"
)

func TestStore(t *testing.T) {
	many := 2000
	if suites.Chosen(t, suites.Models) {
		many = 0
	}
	storetest.Run(t, func(t *testing.T) storetest.Database {
		t.Helper()
		path := filepath.Join(t.TempDir(), "store.db")
		open := func(ctx context.Context) (driver.Store, error) { return sqlite.Open(ctx, path, sqlite.Options{}) }
		return storetest.Database{
			Quiet: true, Many: many, Neighbour: storetest.Neighbour("sqlite:" + path),
			Open: func(ctx context.Context) (driver.Store, error) {
				s, err := open(ctx)
				if err != nil {
					return nil, err
				}
				return s, nil
			},
			ShiftSchema: func(ctx context.Context, by int) error {
				return onFile(ctx, path, fmt.Sprintf(`UPDATE "default_schema" SET version = version + %d`, by))
			},
			Forget: func(ctx context.Context, kind driver.Kind) error {
				return onFile(ctx, path, `DROP TABLE default_steps; DROP TABLE "default_`+kind.Info().Plural+`"`)
			},
			Spoil: func(ctx context.Context, kind driver.Kind, id string) error {
				return onFile(ctx, path, `UPDATE "default_`+kind.Info().Plural+`" SET rev = 0 WHERE id = '`+id+`'`)
			},
			Examined: func(ctx context.Context, kind driver.Kind, q driver.Query) (int64, error) {
				s, err := open(ctx)
				if err != nil {
					return 0, err
				}
				defer func() { _ = s.Close(ctx) }()
				return examined(ctx, s, kind, q)
			},
		}
	})
}

// onFile runs a statement in a file that no store has open.
func onFile(ctx context.Context, path, statement string) error {
	db, err := sql.Open("sqlite", path)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	_, err = db.ExecContext(ctx, statement)
	return err
}

var search = regexp.MustCompile(`SEARCH default_\w+ USING (?:COVERING )?INDEX \w+ \(([^)]*)\)`)

// examined is how many rows the plan of a List looks at. They are those that meet what it searches an index for. They
// count up to the limit where they come in order and nothing else is asked of them.
func examined(ctx context.Context, s driver.Store, kind driver.Kind, q driver.Query) (int64, error) {
	plan, err := plan(ctx, s, kind, q)
	if err != nil {
		return 0, err
	}
	looked := driver.Query{CountOnly: true}
	rest := q
	if found := search.FindStringSubmatch(strings.ReplaceAll(plan, `"`, "")); found != nil {
		for term := range strings.SplitSeq(found[1], " AND ") {
			switch strings.Trim(term, "<>=?") {
			case "grp":
				looked.Group, rest.Group = q.Group, ""
			case "rev":
				looked.MinRev, rest.MinRev = q.MinRev, 0
			case "session":
				looked.Sessions, looked.Others, rest.Sessions, rest.Others = q.Sessions, q.Others, nil, nil
			case "suspended":
				looked.Unsuspended, rest.Unsuspended = q.Unsuspended, false
			case "expires":
				looked.Expired, rest.Expired = q.Expired, 0
			case "id":
				looked.From, looked.To, rest.From, rest.To = q.From, q.To, "", ""
			default:
				return 0, fmt.Errorf("unknown term %q in plan:\n%s", term, plan)
			}
		}
	}
	res, err := s.List(ctx, kind, looked)
	if err != nil {
		return 0, err
	}
	rest.Limit, rest.Reverse, rest.CountOnly, rest.NoBody = 0, false, false, false
	unconditional := fmt.Sprint(rest) == fmt.Sprint(driver.Query{})
	if q.Limit > 0 && unconditional && !strings.Contains(plan, "TEMP B-TREE") {
		return min(res.Total, int64(q.Limit)), nil
	}
	return res.Total, nil
}

func plan(ctx context.Context, s driver.Store, kind driver.Kind, q driver.Query) (string, error) {
	text, args := sqlstore.Of(s).ListStatement(kind, q)
	rows, err := sqlstore.Of(s).DB().QueryContext(ctx, "EXPLAIN QUERY PLAN "+text, args...)
	if err != nil {
		return "", err
	}
	defer func() { _ = rows.Close() }()
	var lines []string
	for rows.Next() {
		var id, parent, unused int
		var detail string
		if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
			return "", err
		}
		if !slices.Contains(lines, detail) {
			lines = append(lines, detail)
		}
	}
	return strings.Join(lines, "\n"), rows.Err()
}
