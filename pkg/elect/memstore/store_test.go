package memstore_test

import (
	"context"
	"testing"

	"go.uber.org/goleak"

	"github.com/shardctl/shardctl/pkg/elect/memstore"
	"github.com/shardctl/shardctl/pkg/elect/store"
	"github.com/shardctl/shardctl/pkg/elect/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Database {
		t.Helper()
		first := memstore.New()
		return storetest.Database{
			Open: func(context.Context) (store.Store, error) { return first.Client(), nil },
			Examined: func(_ context.Context, kind store.Kind, q store.Query) (int64, error) {
				return first.Examined(kind, q), nil
			},
		}
	})
}
