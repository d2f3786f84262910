package engine

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/cluster"
	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/internal/record"
)

// keyWalk is what a look at every key finds: the table must know it without one.
type keyWalk struct {
	always map[record.Key]bool // sure to name this session ever since the count began
	ever   map[record.Key]bool // not free at some moment since then
}

func (w *keyWalk) begin(t *Keys) {
	w.always, w.ever = map[record.Key]bool{}, map[record.Key]bool{}
	for key, h := range t.Held {
		w.ever[key] = true
		w.always[key] = h.surelyOwned()
	}
}

func (w *keyWalk) check(t *testing.T, table *Keys) {
	t.Helper()
	sure, waiting := 0, 0
	for key, h := range table.Held {
		w.ever[key] = true
		if h.surelyOwned() {
			sure++
		}
		_, pending := table.timers.pending[h]
		if pending != h.waits() {
			t.Fatalf("%s: pending %v, want %v: %+v", key, pending, h.waits(), h.m)
		}
		if pending {
			waiting++
		}
	}
	least := 0
	for key, always := range w.always {
		h := table.Held[key]
		w.always[key] = always && h != nil && h.surelyOwned()
		if w.always[key] {
			least++
		}
	}
	if gotLeast, gotMost := table.owned.counted(); int(table.owned.named) != sure || gotLeast != least ||
		gotMost < len(w.ever) {
		t.Fatalf(
			"named %d, counted %d to %d; want %d, %d to at least %d", table.owned.named, gotLeast, gotMost, sure,
			least, len(w.ever),
		)
	}
	if len(table.timers.pending) != waiting {
		t.Fatalf("%d keys are pending, want %d", len(table.timers.pending), waiting)
	}
}

func TestWhatATickLooksAtIsWhatALookAtEveryKeyFinds(t *testing.T) {
	p := testParams(t)
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 1))
		table, now := newKeys(&Effects{}, p), time.Hour
		table.begin(holder{IDs: &record.WriterIDs{Session: "me"}, Instance: "a"})
		var w keyWalk
		w.begin(table)
		for range 400 {
			now += time.Duration(r.IntN(300)) * time.Millisecond
			m := protocol.Moment{
				Now: protocol.Instant{Mono: now, Boot: now}, Clock: now.Milliseconds(), Rev: now.Milliseconds(),
				Valid: r.IntN(8) > 0,
			}
			key := record.Key(fmt.Sprintf("g/%d", r.IntN(6)))
			switch r.IntN(14) {
			case 0, 1, 2:
				table.claim(Claim{Lock: record.Lock{Key: key, Rev: int64(5 * r.IntN(2))}, Adopt: r.IntN(2) == 0}, m)
			case 3:
				table.Release(cluster.HandOver{Key: key}, m)
			case 4, 5:
				h := table.Held[key]
				if h != nil && (h.m.Phase == protocol.Running || h.m.Phase == protocol.Stopping) {
					table.Returned(key, record.TaskStatus{}, false, m)
				}
			case 6:
				table.Report(key, record.TaskStatus{}, m.Now)
			case 7:
				table.Advance(key, record.TaskStatus{}, m)
			case 8:
				table.lose(key, r.IntN(2) == 0, m)
			case 9:
				table.All([]protocol.KeyEventKind{
					protocol.KeyDeadline, protocol.KeyResume, protocol.KeyResume, protocol.KeyLose,
				}[r.IntN(4)], m)
			case 10:
				table.found(keyFound{Key: key, Err: []error{errors.New("no answer"), nil}[r.IntN(2)], Mark: 7}, m)
			case 11:
				table.tick(m)
			default:
				for _, c := range table.prepare([]record.Key{key}, m) {
					table.answered(key, c.Doc.WriterID, []protocol.Status{
						protocol.Applied, protocol.Applied, protocol.Refused, protocol.Unknown,
					}[r.IntN(4)], nil, m)
				}
			}
			w.check(t, table)
			if r.IntN(20) == 0 {
				table.owned.begin()
				w.begin(table)
			}
		}
	}
}

func TestKeysThatRestCostATickNothing(t *testing.T) {
	p := testParams(t)
	table := newKeys(&Effects{}, p)
	table.begin(holder{IDs: &record.WriterIDs{Session: "me"}, Instance: "a"})
	m := testMoment(0)
	for i := range 100 {
		key := record.Key(fmt.Sprintf("g/%d", i))
		table.claim(Claim{Lock: record.Lock{Key: key, Rev: 5}}, m)
		if len(table.timers.pending) > 0 {
			t.Fatal("a claim that is sent waits for its answer, not for a tick")
		}
		for _, c := range table.prepare([]record.Key{key}, m) {
			table.answered(key, c.Doc.WriterID, protocol.Applied, nil, m)
		}
		table.Report(key, record.TaskStatus{State: "running"}, m.Now)
	}
	if d, ok := table.timers.reports.wait(m.Now); !ok || d != reportDelay {
		t.Errorf("sleeps %v, %v; want the delay of reports", d, ok)
	}
	m.Now = m.Now.Add(reportDelay)
	table.tick(m)
	takeFrom(table.out)
	for key := range table.Held {
		for _, c := range table.prepare([]record.Key{key}, m) {
			table.answered(key, c.Doc.WriterID, protocol.Applied, nil, m)
		}
	}
	if n := len(table.timers.pending) + len(table.timers.reports.queue) + len(table.timers.lost.queue); n > 0 {
		t.Errorf("%d keys are looked at in each tick although all rest", n)
	}
	if _, ok := table.timers.reports.wait(m.Now); ok {
		t.Error("waits for a status although none is left")
	}
}
