package storecopy_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/shardctl/shardctl/internal/storecopy"
	"github.com/shardctl/shardctl/internal/testmongo"
	_ "github.com/shardctl/shardctl/pkg/elect/mongostore"
	_ "github.com/shardctl/shardctl/pkg/elect/sqlstore/sqlite"
	"github.com/shardctl/shardctl/pkg/elect/store"
)

func TestMain(m *testing.M) { os.Exit(testmongo.Main(m)) }

func open(t *testing.T, uri, cluster string) storecopy.Side {
	t.Helper()
	db, err := store.Open(t.Context(), store.Config{URI: uri, Cluster: cluster})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close(context.WithoutCancel(t.Context())) })
	return side(uri+" "+cluster, db)
}

// Tokens rise on the way from MongoDB to SQLite and back, with more documents than a page holds.
func TestMongoToSQLiteAndBack(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a MongoDB, and thousands of documents")
	}
	uri := testmongo.Shared(t)
	first := open(t, uri, "first")
	file := open(t, "sqlite:"+filepath.Join(t.TempDir(), "moved.db"), "moved")
	last := open(t, uri, "last")
	const many = 1234
	for i := range many {
		put(t, first, store.Doc{
			Kind: store.KindValue, ID: fmt.Sprintf("g0/v%04d", i), Group: "g0", Rev: int64(i + 1), Count: 7,
			WriterID: store.WriterID{Session: "w", Seq: int64(i + 1)}, Body: []byte{byte(i), 0, 255},
		})
	}
	all := keys(10)
	tokens := claim(t, first, all...)
	for _, step := range []struct{ from, to storecopy.Side }{{first, file}, {file, last}} {
		report := move(t, step.from, step.to)
		if report.Documents["locks"] != len(all) || report.Documents["values"] != many || report.Documents["groups"] < 2 {
			t.Errorf("copied %v, want %d locks, %d values and the counters", report.Documents, len(all), many)
		}
		next := claim(t, step.to, all...)
		risen(t, tokens, next)
		tokens = next
	}
}
