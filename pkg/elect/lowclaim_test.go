package elect_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/memory"
)

// lowClaim is a store that writes the first claim without an answer. Its gate closes then, and opens above that claim.
type lowClaim struct {
	*memory.Store
	first driver.Doc
}

func (s *lowClaim) Apply(ctx context.Context, changes ...driver.Change) ([]driver.Outcome, error) {
	outs, err := s.Store.Apply(ctx, changes...)
	if err != nil || changes[0].Claim == 0 {
		return outs, err
	}
	switch s.first.Rev {
	case 0:
		s.first = changes[0].Doc
		return driver.AllUnknown(len(changes), errClosed), nil
	case changes[0].Doc.Rev:
		found := s.first
		return []driver.Outcome{{Status: driver.Refused, Doc: &found}}, nil
	}
	return outs, nil
}

// No one else has a key whose claim was written, not answered, and refused as too low.
func TestAClaimThatIsTooLowIsMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &lowClaim{Store: memory.New()}
		a := startNode(t, memory.New(), "a", func(c *elect.Config) { c.Store = s })
		var token atomic.Int64
		ok, err := a.Lock(t.Context(), "g/k", func(_ context.Context, lease *elect.Lease) error {
			token.Store(lease.Token())
			return nil
		})
		if !ok || err != nil {
			t.Fatalf("Lock = %v, %v; want it to run: no one else has the key", ok, err)
		}
		eventually(t, time.Second, "it runs", func() bool { return token.Load() != 0 })
		if got := token.Load(); got <= s.first.Rev {
			t.Errorf("token %d, want one above the claim that was refused, %d", got, s.first.Rev)
		}
		a.stop()
		if err := s.Close(t.Context()); err != nil && !errors.Is(err, store.ErrUnavailable) {
			t.Error(err)
		}
	})
}
