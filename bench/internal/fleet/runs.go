//go:build linux

package fleet

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/shardctl/shardctl/internal/sleep"
	"github.com/shardctl/shardctl/pkg/elect"
)

// runLog notes what runs where, and whether two runs of a key were ever alive at once. It may be used concurrently.
type runLog struct {
	mu      sync.Mutex
	now     map[elect.Key]start
	tokens  map[elect.Key]int64
	starts  []start
	gaps    []time.Duration
	ended   map[elect.Key]time.Time
	faults  []string
	changed chan struct{} // holds one signal: somebody should look again
}

// start is one start of a key.
type start struct {
	key    elect.Key
	member string
	token  int64
	at     time.Time
}

func newRunLog() *runLog {
	return &runLog{
		now: map[elect.Key]start{}, tokens: map[elect.Key]int64{}, ended: map[elect.Key]time.Time{},
		changed: make(chan struct{}, 1),
	}
}

// run makes a member's callbacks: they run until they are asked to end.
func (b *runLog) run(member string) func(elect.Key) elect.Runnable {
	return func(key elect.Key) elect.Runnable {
		return elect.Go(func(ctx context.Context, lease *elect.Lease) error {
			b.begin(start{key, member, lease.Token(), time.Now()})
			<-ctx.Done()
			b.end(key)
			return nil
		})
	}
}

func (b *runLog) begin(s start) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if other, runs := b.now[s.key]; runs {
		b.faults = append(b.faults, fmt.Sprintf("%s runs on %s and on %s", s.key, other.member, s.member))
	}
	if s.token <= b.tokens[s.key] {
		b.faults = append(b.faults, fmt.Sprintf("%s: token %d after %d", s.key, s.token, b.tokens[s.key]))
	}
	if ended, ok := b.ended[s.key]; ok {
		b.gaps = append(b.gaps, s.at.Sub(ended))
	}
	b.now[s.key], b.tokens[s.key] = s, s.token
	b.starts = append(b.starts, s)
	b.wake()
}

func (b *runLog) end(key elect.Key) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.now, key)
	b.ended[key] = time.Now()
	b.wake()
}

func (b *runLog) fault(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults = append(b.faults, fmt.Sprintf(format, args...))
}

func (b *runLog) wake() {
	select {
	case b.changed <- struct{}{}:
	default:
	}
}

// counts are the running keys of each member.
func (b *runLog) counts() map[string]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	counts := map[string]int{}
	for _, s := range b.now {
		counts[s.member]++
	}
	return counts
}

// since are the starts after the first n.
func (b *runLog) since(n int) []start {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]start(nil), b.starts[n:]...)
}

// gapsSince are the times without a run, after the first n.
func (b *runLog) gapsSince(n int) []time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]time.Duration(nil), b.gaps[n:]...)
}

// running waits until total keys run.
func (b *runLog) running(ctx context.Context, limit time.Duration, total int) error {
	return b.await(ctx, limit, func() bool { return b.total() == total })
}

func (b *runLog) total() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.now)
}

// even waits until total keys run, spread evenly over so many members.
func (b *runLog) even(ctx context.Context, limit time.Duration, total, members int) error {
	return b.await(ctx, limit, func() bool { return b.total() == total && isEven(b.counts(), total, members) })
}

func (b *runLog) await(ctx context.Context, limit time.Duration, ready func() bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not reached within %v", limit))
	defer cancel()
	for {
		if ready() {
			return nil
		}
		select {
		case <-b.changed:
			if err := sleep.For(ctx, 2*time.Millisecond); err != nil { // counting is not free where there are many
				return fmt.Errorf("%w: %v", err, b.counts())
			}
		case <-ctx.Done():
			return fmt.Errorf("%w: %v", context.Cause(ctx), b.counts())
		}
	}
}

func isEven(counts map[string]int, total, members int) bool {
	least, most, sum := total, 0, 0
	for _, n := range counts {
		least, most, sum = min(least, n), max(most, n), sum+n
	}
	return sum == total && len(counts) == members && most-least <= 1
}
