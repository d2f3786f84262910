package simulation

import (
	"strings"
	"testing"

	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// TestJudge breaks one assumption each, outside the code under test: the judge must see it.
func TestJudge(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		spoil func(*world)
		says  string
	}{
		"a store that ignores revisions":            {func(w *world) { w.store.blind = true }, "starts key"},
		"a store that ignores revisions of mutexes": {func(w *world) { w.store.blindMutexes = true }, "enters"},
		"mutexes that are kept for ever": {func(w *world) {
			for id := range w.mutexes {
				w.store.mutexes[id] = record.MutexDoc(id, protocol.MutexDoc{
					Rev: 1, Hold: protocol.MutexHold{UntilMs: w.clock() * 2, ForMs: w.clock()},
				}, driver.WriterID{Session: "spoiled", Seq: 1}, w.clock())
			}
		}, "waits for"},
		"clocks at rates far apart": {func(w *world) {
			for i, r := range w.replicas {
				r.rate = []float64{0.4, 1.6}[i%2]
			}
		}, "while"},
		"killers who wait for half of the time": {func(w *world) {
			w.p.Renew, w.p.Kill, w.p.Hard = w.p.T*3/2, w.p.T*16/10, w.p.T*18/10
		}, "while"},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := uint64(3); seed < 60; seed++ { // the first ones show little
				c := small(seed)
				p, err := protocol.NewParams(c.Lease, 0)
				if err != nil {
					t.Fatal(err)
				}
				w := newWorld(c, p)
				tc.spoil(w)
				if f := w.run(); len(f.Wrong) > 0 && strings.Contains(f.Wrong[0], tc.says) {
					t.Logf("seed %d: %s", seed, f.Wrong[0])
					return
				}
			}
			t.Error("nothing was found wrong")
		})
	}
}
