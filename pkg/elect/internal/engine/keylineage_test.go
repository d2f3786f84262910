package engine

import (
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/internal/record"
)

// A write that waits to be sent was decided on in another lineage. It goes out after the comparison, once.
func TestAWriteThatWaitsIsHeldBackInDoubt(t *testing.T) {
	const key = "g/k"
	w := newKeysWorld(t)
	w.claim(Claim{Lock: record.Lock{Key: key, Rev: 5}, Adopt: true}, w.moment())
	acked := of[Acked](w.answer(w.send(), protocol.Applied))
	if len(acked) != 1 {
		t.Fatalf("acknowledged %+v, want the claim", acked)
	}
	lock := *acked[0].Is
	w.Report(key, record.TaskStatus{State: "working"}, w.moment().Now)
	w.now += time.Second
	w.tick(w.moment())
	queued := of[keyWrite](takeFrom(w.out))
	if len(queued) != 1 {
		t.Fatalf("writes %+v, want the report", queued)
	}
	w.lineageChanged(w.moment())
	if sent := w.prepare([]record.Key{key}, w.moment()); len(sent) > 0 {
		t.Errorf("sent before the comparison: %+v", sent)
	}
	if r := takeFrom(w.out); len(of[keyRead](r)) != 1 || len(of[keyWrite](r)) > 0 {
		t.Fatalf("verifying: %+v, want a read", r)
	}
	w.found(keyFound{Key: key, Lock: &lock}, w.moment())
	w.now += time.Second
	w.tick(w.moment())
	r := takeFrom(w.out)
	if len(of[Stop](r)) > 0 || w.Held.verifying() {
		t.Fatalf("found as it was: %+v", r)
	}
	if len(of[keyWrite](r)) != 1 {
		t.Fatalf("writes %+v, want the report again", of[keyWrite](r))
	}
	sent := w.prepare([]record.Key{key, key}, w.moment())
	if len(sent) != 1 || sent[0].IfRev != lock.Rev {
		t.Fatalf("sent %+v, want one on top of revision %d", sent, lock.Rev)
	}
	if r := w.answer(sent, protocol.Applied); len(of[Acked](r)) != 1 {
		t.Errorf("acknowledged %+v", of[Acked](r))
	}
}

// A store that forgets refuses claims below its gate's mark, also one that was written and not answered. No one else
// has the key.
func TestAClaimThatIsRefusedAndFoundAsWrittenIsMadeAgain(t *testing.T) {
	for name, tc := range map[string]struct {
		found func(sent record.Lock) *record.Lock
		again bool
	}{
		"as it wrote it": {func(sent record.Lock) *record.Lock { return &sent }, true},
		"as it was before": {func(sent record.Lock) *record.Lock {
			return &record.Lock{Key: sent.Key, Rev: 5}
		}, true},
		"as another wrote it": {func(record.Lock) *record.Lock {
			return &record.Lock{Key: "g/k", Rev: 7, Session: "b"}
		}, false},
	} {
		w := newKeysWorld(t)
		w.claim(Claim{Lock: record.Lock{Key: "g/k", Rev: 5}}, w.moment())
		sent := w.send()
		found := tc.found(lockOf(t, sent[0]))
		w.answered("g/k", sent[0].Doc.WriterID, protocol.Refused, found, w.moment())
		if f := of[Freed](takeFrom(w.out)); len(f) != 1 || !f[0].Refused || f[0].Reclaim != tc.again {
			t.Errorf("%s: freed %+v, want again %v", name, f, tc.again)
		}
	}
}
