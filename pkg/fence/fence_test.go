package fence_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/fence"
	"github.com/shardctl/shardctl/pkg/fence/fencetest"
	"github.com/shardctl/shardctl/pkg/store/driver"
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

func TestMarks(t *testing.T) {
	seen := fence.Marks{Exclusive: 5, Shared: 8}
	for _, tt := range []struct {
		name  string
		marks fence.Marks
		claim fence.Claim
		want  fence.Marks
		old   bool
	}{
		{"first writer", fence.Marks{}, fence.Exclusive("k", 1), fence.Marks{Exclusive: 1}, false},
		{"first reader", fence.Marks{}, fence.Shared("k", 1), fence.Marks{Shared: 1}, false},
		{"writer after all", seen, fence.Exclusive("k", 9), fence.Marks{Exclusive: 9, Shared: 8}, false},
		{"writer after the last writer only", seen, fence.Exclusive("k", 7), seen, true},
		{"writer before all", seen, fence.Exclusive("k", 4), seen, true},
		{"the same writer", fence.Marks{Exclusive: 5}, fence.Exclusive("k", 5), fence.Marks{Exclusive: 5}, false},
		{"reader after the last writer", seen, fence.Shared("k", 6), seen, false},
		{"reader after all", seen, fence.Shared("k", 9), fence.Marks{Exclusive: 5, Shared: 9}, false},
		{"the last writer reads", seen, fence.Shared("k", 5), seen, false},
		{"reader before the last writer", seen, fence.Shared("k", 4), seen, true},
		{
			"the last writer writes after it has read",
			fence.Marks{Exclusive: 5, Shared: 5},
			fence.Exclusive("k", 5),
			fence.Marks{Exclusive: 5, Shared: 5},
			false,
		},
		{
			"the largest", seen, fence.Shared("k", fence.MaxToken),
			fence.Marks{Exclusive: 5, Shared: fence.MaxToken},
			false,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.marks.Pass(tt.claim)
			if got != tt.want || errors.Is(err, fence.ErrOld) != tt.old || !tt.old && err != nil {
				t.Errorf("%+v, %v; want %+v, old %t", got, err, tt.want, tt.old)
			}
		})
	}
}

// Tokens are revisions of a store's documents: whatever a store can hand out passes, and nothing above.
func TestMaxTokenIsTheLargestRevision(t *testing.T) {
	if fence.MaxToken != driver.MaxRev {
		t.Errorf("MaxToken is %d, MaxRev %d: want the same", int64(fence.MaxToken), int64(driver.MaxRev))
	}
}

// A full fence refuses keys that it does not know, and goes on with those that it knows.
func TestMemoryIsBounded(t *testing.T) {
	fences := fence.Memory{MaxKeys: 2}
	worked := 0
	do := func(key string, token int64) error {
		return fences.Do(t.Context(), fence.Exclusive(key, token), func(context.Context) error { worked++; return nil })
	}
	for _, key := range []string{"a", "b", "a"} {
		if err := do(key, 7); err != nil {
			t.Error(err)
		}
	}
	for _, key := range []string{"c", "d"} {
		err := do(key, 7)
		if !errors.Is(err, fence.ErrFull) || !strings.Contains(err.Error(), `key "`+key+`" is new, and MaxKeys is 2`) {
			t.Errorf("%s: %v, want ErrFull with the key and the limit", key, err)
		}
	}
	if err := do("b", 8); err != nil || worked != 4 {
		t.Errorf("a known key of a full fence: %v, %d calls of work, want 4", err, worked)
	}
	if err := do("b", 7); !errors.Is(err, fence.ErrOld) {
		t.Errorf("an old token at a full fence: %v, want ErrOld", err)
	}
}

func TestOldErrorSaysWhatWasSeen(t *testing.T) {
	_, err := fence.Marks{Exclusive: 5, Shared: 8}.Pass(fence.Exclusive("reports/monthly", 7))
	const want = "token 7 of reports/monthly is old: 8 has been seen: another owner has followed"
	var old *fence.OldError
	if err.Error() != want || !errors.As(err, &old) || old.Seen.Shared != 8 || old.Claim.Token != 7 {
		t.Errorf("%v, want %s", err, want)
	}
}
