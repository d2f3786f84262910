//go:build unix

package kafka

import (
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/testbroker"
)

// used is the processor time of this process.
func used(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// memory is what the heap and the stacks hold.
func memory() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// A hundred subscriptions with nothing to do cost next to nothing, each with a client of its own.
func TestIdleSubscriptionsCostLittle(t *testing.T) {
	const n, limitCPU, limitMemory = 100, 0.01, 40 << 20
	broker := testbroker.Shared(t, testbroker.KindKafka)
	b := benchOf(t, broker.Addr)
	prefix := testbroker.Name()
	for i := range n {
		b.create(fmt.Sprintf("%s-%d", prefix, i), 1)
	}
	before, goroutines := memory(), runtime.NumGoroutine()
	began := time.Now()
	for i := range n {
		o := b.Open(Source{Brokers: []string{b.addr}, TopicName: fmt.Sprintf("%s-%d", prefix, i), Group: prefix}, 1)
		go func() { _, _ = o.Sub.Receive(t.Context(), 1) }()
	}
	t.Logf("%s for one to open", time.Since(began)/n)
	runtime.GC()
	cpu, from := used(t), time.Now()
	<-time.After(refreshEvery / 2) // nothing is waited for: this is how long it is measured
	share := float64(used(t)-cpu) / float64(time.Since(from))
	grown := memory() - before
	t.Logf("%d subscriptions: %.2f %% of a core, %.1f MiB, %d goroutines", n, 100*share, float64(grown)/(1<<20),
		runtime.NumGoroutine()-goroutines)
	if share > limitCPU || grown > limitMemory {
		t.Errorf("want at most %.0f %% of a core and %d MiB", 100*limitCPU, limitMemory>>20)
	}
}
