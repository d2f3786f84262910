package sqlite_test

import (
	"context"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/sqlite"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(childEnv); path != "" {
		os.Exit(childMain(path))
	}
	goleak.VerifyTestMain(m)
}

func open(t *testing.T, path string, o sqlite.Options) store.Store {
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

func create(id string) store.Change {
	return store.Change{
		Doc: store.Doc{Kind: store.KindLock, ID: id, Rev: 1, WriterID: store.WriterID{Session: "s", Seq: 1}},
	}
}

func apply(ctx context.Context, t *testing.T, s store.Store, changes ...store.Change) store.Outcome {
	t.Helper()
	outs, err := s.Apply(ctx, changes...)
	if err != nil {
		t.Fatalf("apply: %v", err)
	}
	return outs[0]
}
