package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/store"
)

// A call whose context has ended is no failure of the change: its outcome is unknown.
func testEndedContext(b *bench) {
	t := b.t
	s := b.open(t)
	must(t, s, b.put(lock("g/a"), 0))
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	expired, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	for name, ctx := range map[string]context.Context{"cancelled": cancelled, "expired": expired} {
		first, second := b.put(lock("g/"+name), 0), b.put(lock("g/"+name+"2"), 0)
		outs, err := s.Apply(ctx, first, second)
		if err != nil || len(outs) != 2 {
			t.Fatalf("%s: %v, %v; want two outcomes unknown", name, outs, err)
		}
		for _, out := range outs {
			if out.Status != store.Unknown || !errors.Is(out.Err, store.ErrUnavailable) {
				t.Fatalf("%s: %s; want unknown with ErrUnavailable", name, describe(out))
			}
		}
		must(t, s, first, second) // the repeat gets a definite answer
		wantStored(t, s, first.Doc)

		if _, err := s.Read(ctx, store.KindLock, "g/a"); !errors.Is(err, store.ErrUnavailable) {
			t.Fatalf("%s: read: %v, want ErrUnavailable", name, err)
		}
		if _, err := s.List(ctx, store.KindLock, store.Query{}); !errors.Is(err, store.ErrUnavailable) {
			t.Fatalf("%s: list: %v, want ErrUnavailable", name, err)
		}
	}
}

// Writers whose contexts end somewhere in the middle repeat the same change until they are answered, and lose and
// double nothing.
func testUnknownOutcomes(b *bench) {
	t := b.t
	const writers, each = 6, 25
	clients := []store.Store{b.open(t), b.open(t)}
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(uint64(w), 1)) //nolint:gosec // the same times in each run, no secrets
			for rev := range int64(each) {
				c := b.put(lock(fmt.Sprint("g/", w)), rev)
				c.Doc.Count = rev + 1
				if err := applyHurried(t, clients[w%2], c, random); err != nil {
					t.Errorf("writer %d: %v", w, err)
					return
				}
			}
		})
	}
	wg.Wait()
	for w := range writers {
		got := read(t, clients[0], store.KindLock, fmt.Sprint("g/", w))
		if got == nil || got.Count != each || got.Rev != each {
			t.Fatalf("writer %d left %+v, want count and revision %d", w, got, each)
		}
	}
}

// applyHurried repeats c, first with hardly any time, then with more, until it is answered.
func applyHurried(t *testing.T, s store.Store, c store.Change, random *rand.Rand) error {
	t.Helper()
	first := time.Duration(random.IntN(2000)) * time.Microsecond
	for limit := first; limit < time.Minute; limit = 2*limit + time.Microsecond {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		outs, err := s.Apply(ctx, c)
		cancel()
		switch {
		case err != nil:
			return err
		case outs[0].Status == store.Applied:
			return nil
		case outs[0].Status != store.Unknown:
			return fmt.Errorf("only writer of its document, revision %d: %s", c.IfRev, describe(outs[0]))
		case !errors.Is(outs[0].Err, store.ErrUnavailable):
			return fmt.Errorf("unknown without ErrUnavailable: %w", outs[0].Err)
		}
	}
	return errors.New("no answer within a minute")
}
