package sqlite_test

import (
	"context"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/sqlite"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(childEnv); path != "" {
		os.Exit(childMain(path))
	}
	goleak.VerifyTestMain(m)
}

func open(t *testing.T, path string, o sqlite.Options) driver.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), path, o)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func create(id string) driver.Change {
	return driver.Change{
		Doc: driver.Doc{Kind: driver.KindLock, ID: id, Rev: 1, WriterID: driver.WriterID{Session: "s", Seq: 1}},
	}
}

func apply(ctx context.Context, t *testing.T, s driver.Store, changes ...driver.Change) driver.Outcome {
	t.Helper()
	outs, err := s.Apply(ctx, changes...)
	if err != nil {
		t.Fatalf("apply: %v", err)
	}
	return outs[0]
}
