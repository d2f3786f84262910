package memory_test

import (
	"context"
	"testing"

	"go.uber.org/goleak"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/memory"
	"github.com/shardctl/shardctl/pkg/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Database {
		t.Helper()
		first := memory.New()
		return storetest.Database{
			Quiet: true,
			Open:  func(context.Context) (driver.Store, error) { return first.Client(), nil }, //nolint:contextcheck // it has none
			Examined: func(_ context.Context, kind driver.Kind, q driver.Query) (int64, error) {
				return first.Examined(kind, q), nil
			},
		}
	})
}
