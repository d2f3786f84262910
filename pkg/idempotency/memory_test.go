package idempotency_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
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

// Memory refuses new requests when it is full, forgets none before its time, and has room again when they expire.
func TestMemoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, err := idempotency.New(idempotency.Config{Records: idempotency.Memory(), Keep: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		calls := 0
		body := make([]byte, idempotency.MaxReply)
		do := func(id string) (idempotency.Reply, error) {
			return g.Do(t.Context(), idempotency.Request{ID: id}, func(context.Context) (idempotency.Reply, error) {
				calls++
				return idempotency.Reply{Body: body}, nil
			})
		}
		const more = idempotency.MaxMemory/idempotency.MaxReply + 1
		kept := 0
		for err = nil; err == nil && kept <= more; kept++ {
			_, err = do(fmt.Sprint(kept))
		}
		kept-- // the last was refused
		if !errors.Is(err, idempotency.ErrUnavailable) || !strings.Contains(err.Error(), "67108864 bytes is the limit") ||
			calls != kept || kept < more*9/10 {
			t.Fatalf("after %d records and %d calls: %v, want ErrUnavailable with the limit", kept, calls, err)
		}
		for i := range kept {
			if reply, err := do(fmt.Sprint(i)); err != nil || !reply.Replayed {
				t.Fatalf("record %d of a full memory: replayed %t, %v", i, reply.Replayed, err)
			}
		}
		time.Sleep(time.Hour)
		for i := range kept / 2 {
			if _, err := do(fmt.Sprint("later ", i)); err != nil {
				t.Fatalf("request %d after the others have expired: %v", i, err)
			}
		}
	})
}

// A number that is no status of HTTP would have net/http panic. 0 is that of replies which are not of HTTP.
func TestDecodeRecordLooksAtTheStatus(t *testing.T) {
	for status, ok := range map[int]bool{-1: false, 0: true, 1: false, 199: false, 200: true, 999: true, 1000: false} {
		_, err := idempotency.DecodeRecord(fmt.Appendf(nil,
			`{"id":"a","state":"done","claim":"c","attempt":1,"reply":{"status":%d}}`, status))
		if (err == nil) != ok || err != nil && !strings.Contains(err.Error(), fmt.Sprintf("reply.status: %d: want", status)) {
			t.Errorf("status %d: %v, want it taken: %t", status, err, ok)
		}
	}
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
