package elect_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/internal/electing"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store/memory"
)

// steps are the steps of keys, as one elector reports them.
type steps struct {
	mu  sync.Mutex
	all []string
}

func (s *steps) take(c electing.KeyChange) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := fmt.Sprintf("%d %s", c.Step, c.Key)
	if c.Is != nil {
		text += fmt.Sprintf(" %q→%q token %v", c.Was.Instance, c.Is.Instance, c.Is.Token > c.Was.Token)
	}
	s.all = append(s.all, text)
}

func (s *steps) got() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.all)
}

// Each step of a key is reported once and in order, also that of a claim which another was before.
func TestStepsOfKeysAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		var a, b steps
		first := startNode(t, db, "a", func(c *elect.Config) { c.Inside.Hooks.Key = a.take })
		second := startNode(t, db, "b", func(c *elect.Config) { c.Inside.Hooks.Key = b.take })
		run := func(ctx context.Context, _ *elect.Lease) error { <-ctx.Done(); return nil }
		if ok, err := first.Lock(t.Context(), "g/k", run); !ok || err != nil {
			t.Fatal(ok, err)
		}
		if ok, err := second.Lock(t.Context(), "g/k", run); ok || err != nil {
			t.Fatal(ok, err)
		}
		if err := first.Unlock(t.Context(), "g/k"); err != nil {
			t.Fatal(err)
		}
		if ok, err := second.Lock(t.Context(), "g/k", run); !ok || err != nil {
			t.Fatal(ok, err)
		}
		want := []string{
			fmt.Sprintf("%d g/k", electing.KeyClaiming), fmt.Sprintf(`%d g/k ""→"a" token true`, electing.KeyClaimed),
			fmt.Sprintf("%d g/k", electing.KeyStopping), fmt.Sprintf(`%d g/k "a"→"" token false`, electing.KeyReleased),
			fmt.Sprintf("%d g/k", electing.KeyFreed),
		}
		eventually(t, time.Second, "all steps", func() bool { return len(a.got()) >= len(want) })
		if got := a.got(); !slices.Equal(got, want) {
			t.Errorf("a reported\n%q, want\n%q", got, want)
		}
		won := []string{
			fmt.Sprintf("%d g/k", electing.KeyClaiming), fmt.Sprintf(`%d g/k ""→"b" token true`, electing.KeyClaimed),
		}
		if got := b.got(); len(got) < 2 || !slices.Equal(got[len(got)-2:], won) {
			t.Errorf("b reported\n%q, want at last\n%q", got, won)
		}
		first.stop()
		second.stop()
	})
}
