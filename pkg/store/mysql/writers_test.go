package mysql_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/store"
)

// writers is how many clients write, each its own document.
const writers = 4

// writing is clients that write their documents again and again, through all faults.
type writing struct {
	t            *testing.T
	cancel       context.CancelFunc
	all          sync.WaitGroup
	written      atomic.Int64
	acknowledged [writers]int64 // the largest revision of each; read once all have ended
}

func write(t *testing.T, s store.Store) *writing {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w := &writing{t: t, cancel: cancel}
	for i := range writers {
		w.all.Go(func() { w.one(ctx, s, i) })
	}
	return w
}

func (w *writing) one(ctx context.Context, s store.Store, i int) {
	for rev := int64(0); ctx.Err() == nil; {
		limited, cancel := context.WithTimeout(ctx, 2*time.Second)
		outs, err := s.Apply(limited, put(fmt.Sprint("g/", i), rev, rev+1))
		cancel()
		switch {
		case err != nil:
			w.t.Error(err)
			return
		case outs[0].Status == store.Applied:
			rev++
			w.acknowledged[i] = rev
			w.written.Add(1)
		case outs[0].Status == store.Unknown: // the same again, which shows it
		default:
			w.t.Errorf("g/%d at %d, which no one else writes: %+v", i, rev, outs[0])
			return
		}
	}
}

// await waits until so many more writes were acknowledged.
func (w *writing) await(n int64) {
	w.t.Helper()
	from := w.written.Load()
	waitFor(w.t, "writes", func() bool { return w.written.Load() >= from+n })
}

// end ends all and returns what was acknowledged.
func (w *writing) end() [writers]int64 {
	w.cancel()
	w.all.Wait()
	return w.acknowledged
}
