package fence_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/fence"
	"github.com/shardctl/shardctl/pkg/fence/fencetest"
)

// logs are the work of a test: a log for each key.
type logs struct {
	mu   sync.Mutex
	keys map[string][]string
}

func (l *logs) add(key, entry string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.keys == nil {
		l.keys = map[string][]string{}
	}
	l.keys[key] = append(l.keys[key], entry)
}

func (l *logs) of(key string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.keys[key])
}

func TestMemory(t *testing.T) {
	fencetest.Run(t, func(*testing.T) fencetest.Subject {
		fences, written := new(fence.Memory), new(logs)
		return fencetest.Subject{
			Write: func(ctx context.Context, c fence.Claim, entry string) error {
				return fences.Do(ctx, c, func(context.Context) error {
					written.add(c.Key, entry)
					return nil
				})
			},
			Log:   func(_ context.Context, key string) ([]string, error) { return written.of(key), nil },
			Fence: fences,
		}
	})
}

// Two readers are at work at once, and a writer waits for both.
func TestMemoryReadersWorkAtOnce(t *testing.T) {
	var fences fence.Memory
	met := make(chan struct{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var all sync.WaitGroup
	for _, token := range []int64{5, 7} {
		all.Go(func() {
			err := fences.Do(ctx, fence.Shared("k", token), func(context.Context) error {
				select { // one sends, the other receives: neither goes on alone
				case met <- struct{}{}:
				case <-met:
				case <-ctx.Done():
					return errors.New("the other does not work at the same time")
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

func TestMemoryWaitsNoLongerThanItsContext(t *testing.T) {
	var fences fence.Memory
	enough := errors.New("enough")
	err := fences.Do(t.Context(), fence.Exclusive("k", 1), func(ctx context.Context) error {
		ctx, cancel := context.WithCancelCause(ctx)
		cancel(enough)
		return fences.Do(ctx, fence.Exclusive("k", 2), func(context.Context) error {
			t.Error("it works beside another")
			return nil
		})
	})
	if !errors.Is(err, enough) {
		t.Errorf("%v, want the cause of the context", err)
	}
	if err := fences.Do(t.Context(), fence.Exclusive("k", 1), func(context.Context) error { return nil }); err != nil {
		t.Errorf("token 2 was not seen: %v", err)
	}
}

func TestCheckFirst(t *testing.T) {
	refused := errors.New("refused")
	f := fence.CheckFirst(func(_ context.Context, c fence.Claim) error {
		if c.Token < 7 {
			return refused
		}
		return nil
	})
	worked := 0
	work := func(ctx context.Context) error {
		worked++
		if c, ok := fence.FromContext(ctx); !ok || c.Token != 7 {
			t.Errorf("claim %v, %t", c, ok)
		}
		return nil
	}
	if err := f.Do(t.Context(), fence.Exclusive("k", 6), work); !errors.Is(err, refused) || worked != 0 {
		t.Errorf("%v after %d calls", err, worked)
	}
	if err := f.Do(t.Context(), fence.Exclusive("k", 7), work); err != nil || worked != 1 {
		t.Errorf("%v after %d calls", err, worked)
	}
}
