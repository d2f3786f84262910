package postgres_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/testservers"
	"github.com/shardctl/shardctl/pkg/store/postgres"
)

// Close lets go of everything without an error while calls are under way whose callers have left.
func TestClosedUnderLateCalls(t *testing.T) {
	uri := testservers.Shared(t, testservers.KindPostgres).Database()
	for round := range 30 {
		s, err := postgres.Open(t.Context(), postgres.Options{URI: uri})
		if err != nil {
			t.Fatal(err)
		}
		ctx, leave := context.WithCancel(t.Context())
		var callers sync.WaitGroup
		for i := range 4 {
			callers.Go(func() {
				for ctx.Err() == nil {
					_, _ = s.Apply(ctx, increment(fmt.Sprintf("g%d", i)))
				}
			})
		}
		time.Sleep(time.Duration(round) * time.Millisecond)
		leave()
		callers.Wait()
		within, cancel := context.WithTimeout(t.Context(), patience)
		if err := s.Close(within); err != nil {
			t.Errorf("round %d: %v", round, err)
		}
		cancel()
	}
}
