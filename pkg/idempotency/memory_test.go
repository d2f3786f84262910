package idempotency_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/idempotency"
	"github.com/shardctl/shardctl/pkg/idempotency/idempotencytest"
	"github.com/shardctl/shardctl/test/testprocess"
)

func TestMain(m *testing.M) {
	idempotencytest.Child(openClient)
	os.Exit(testprocess.Main(m))
}

func TestMemory(t *testing.T) {
	idempotencytest.Run(t, idempotencytest.Backend{
		NoWait: true,
		Open: func(testing.TB) func(idempotency.Config) idempotency.Config {
			records := idempotency.Memory()
			return func(cfg idempotency.Config) idempotency.Config {
				cfg.Records = records
				return cfg
			}
		},
	})
}

func TestBadConfig(t *testing.T) {
	_, err := idempotency.New(idempotency.Config{Keep: 31 * 24 * time.Hour})
	for _, want := range []string{"Records and Transact: set exactly one", "Keep is 744h0m0s, want 1s to 720h0m0s"} {
		if !errors.Is(err, idempotency.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want ErrInvalid with %q", err, want)
		}
	}
}

func TestFingerprintCountsLengths(t *testing.T) {
	a := idempotency.Fingerprint([]byte("ab"), []byte("c"))
	if b := idempotency.Fingerprint([]byte("a"), []byte("bc")); a == b || len(a) != 64 {
		t.Errorf("fingerprints %s and %s, want two of 64 digits", a, b)
	}
}

// empty is work that does nothing.
func empty(context.Context) (idempotency.Reply, error) { return idempotency.Reply{}, nil }

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
