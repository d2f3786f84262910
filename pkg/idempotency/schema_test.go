package idempotency_test

import (
	"os"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/pkg/idempotency"
)

// The page shows the statements that make the table.
func TestThePageShowsTheSchemas(t *testing.T) {
	page, err := os.ReadFile("../../docs/idempotency.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, dialect := range dialects {
		for _, statement := range dialect.Schema() {
			if !strings.Contains(string(page), statement+";") {
				t.Errorf("%s: the page lacks\n%s;", name, statement)
			}
		}
	}
}

// Expired records are removed, and no others.
func TestClean(t *testing.T) {
	for name, dialect := range dialects {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && dialect != idempotency.SQLite {
				t.Skip("needs a server: not run in a short run")
			}
			d := fresh(t, dialect)
			g, err := idempotency.New(d.config(idempotency.Config{}))
			if err != nil {
				t.Fatal(err)
			}
			for _, id := range []string{"a", "b", "c", "d"} {
				if _, err := g.Do(t.Context(), idempotency.Request{ID: id}, empty); err != nil {
					t.Fatal(err)
				}
			}
			d.exec(t, "UPDATE idempotency_requests SET expires = 1 WHERE id <> 'd'")
			transactions := idempotency.SQLTransactions{DB: d.db, Dialect: dialect}
			for _, want := range []int64{2, 1, 0} {
				if n, err := transactions.Clean(t.Context(), 2); err != nil || n != want {
					t.Errorf("removed %d, %v, want %d", n, err, want)
				}
			}
			if got, err := g.Do(t.Context(), idempotency.Request{ID: "d"}, empty); err != nil || !got.Replayed {
				t.Errorf("the one that has not expired: %+v, %v", got, err)
			}
		})
	}
}
