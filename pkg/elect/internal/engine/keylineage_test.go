package engine

import (
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
)

// A write that waits to be sent was decided on in another course of writes. It goes out after the comparison, once.
func TestAWriteThatWaitsIsHeldBackInDoubt(t *testing.T) {
	const key = "g/k"
	w := newKeysWorld(t)
	w.Claim(Claim{Lock: record.Lock{Key: key, Rev: 5}, Adopt: true}, w.moment())
	acked := w.answer(w.send(), protocol.Applied).Acked
	if len(acked) != 1 {
		t.Fatalf("acknowledged %+v, want the claim", acked)
	}
	lock := *acked[0].Is
	w.Report(key, record.TaskStatus{State: "working"}, w.moment().Now)
	w.now += time.Second
	w.Tick(w.moment())
	queued := w.Ready().Writes
	if len(queued) != 1 {
		t.Fatalf("writes %+v, want the report", queued)
	}
	w.LineageChanged(w.moment())
	if sent := w.Prepare([]record.Key{key}, w.moment()); len(sent) > 0 {
		t.Errorf("sent before the comparison: %+v", sent)
	}
	if r := w.Ready(); len(r.Reads) != 1 || len(r.Writes) > 0 {
		t.Fatalf("in doubt: %+v, want a read", r)
	}
	w.Found(KeyFound{Key: key, Lock: &lock, OK: true}, w.moment())
	w.now += time.Second
	w.Tick(w.moment())
	r := w.Ready()
	if len(r.Stops) > 0 || w.Verifying() {
		t.Fatalf("found as it was: %+v", r)
	}
	if len(r.Writes) != 1 {
		t.Fatalf("writes %+v, want the report again", r.Writes)
	}
	sent := w.Prepare([]record.Key{key, key}, w.moment())
	if len(sent) != 1 || sent[0].IfRev != lock.Rev {
		t.Fatalf("sent %+v, want one on top of revision %d", sent, lock.Rev)
	}
	if r := w.answer(sent, protocol.Applied); len(r.Acked) != 1 {
		t.Errorf("acknowledged %+v", r.Acked)
	}
}

// A store that forgets refuses claims below its gate's mark, also one that was written and not answered. No one else
// has the key.
func TestAClaimThatIsRefusedAndFoundAsWrittenIsMadeAgain(t *testing.T) {
	for name, tc := range map[string]struct {
		found func(sent record.Lock) *record.Lock
		again bool
	}{
		"as it wrote it":      {func(sent record.Lock) *record.Lock { return &sent }, true},
		"as it was before":    {func(sent record.Lock) *record.Lock { return &record.Lock{Key: sent.Key, Rev: 5} }, true},
		"as another wrote it": {func(record.Lock) *record.Lock { return &record.Lock{Key: "g/k", Rev: 7, Session: "b"} }, false},
	} {
		w := newKeysWorld(t)
		w.Claim(Claim{Lock: record.Lock{Key: "g/k", Rev: 5}}, w.moment())
		sent := w.send()
		found := tc.found(lockOf(t, sent[0]))
		w.Answered("g/k", sent[0].Doc.WriterID, protocol.Refused, found, w.moment())
		if f := w.Ready().Freed; len(f) != 1 || !f[0].Refused || f[0].Reclaim != tc.again {
			t.Errorf("%s: freed %+v, want again %v", name, f, tc.again)
		}
	}
}
