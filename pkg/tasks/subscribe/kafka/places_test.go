package kafka

import (
	"testing"
	"time"
)

func TestPlaces(t *testing.T) {
	p := newPlaces(map[int32]mark{0: {Offset: 10, Epoch: 1}, 1: {Epoch: -1}})
	published := time.Unix(1000, 0)
	for _, offset := range []int64{10, 11, 15} { // 12 to 14 were compacted
		p.seen(ref{0, offset, 2}, published.Add(time.Duration(offset)*time.Second), true)
	}
	ends := map[int32]int64{0: 16, 1: 0}
	if behind, oldest := p.behind(ends); behind != 6 || !oldest.Equal(published.Add(10*time.Second)) {
		t.Errorf("behind %d since %s", behind, oldest)
	}
	if changed := p.unsaved(); len(changed) != 0 {
		t.Errorf("before an acknowledgement %v is to be saved", changed)
	}
	p.acknowledged([]ref{{0, 10, 2}, {0, 11, 2}})
	changed := p.unsaved()
	if len(changed) != 1 || changed[0] != (mark{Offset: 12, Epoch: 2}) {
		t.Errorf("to be saved: %v", changed)
	}
	p.wereSaved(changed)
	if changed := p.unsaved(); len(changed) != 0 {
		t.Errorf("saved, and again %v", changed)
	}
	p.acknowledged([]ref{{0, 15, 2}})
	if got := p.unsaved()[0]; got != (mark{Offset: 16, Epoch: 2}) {
		t.Errorf("after the last one: %v", got)
	}
	if behind, oldest := p.behind(ends); behind != 0 || !oldest.IsZero() {
		t.Errorf("behind %d since %s", behind, oldest)
	}
}

func TestPlacesGoOnPastWhatNobodyWaitsFor(t *testing.T) {
	p := newPlaces(map[int32]mark{0: {Epoch: -1}})
	now := time.Unix(1000, 0)
	p.seen(ref{0, 0, 1}, now, false)
	if behind, _ := p.behind(map[int32]int64{0: 1}); behind != 0 {
		t.Errorf("after the end of a transaction it is %d behind", behind)
	}
	p.seen(ref{0, 1, 1}, now, true)
	p.seen(ref{0, 4, 1}, now, false)
	p.seen(ref{0, 5, 1}, now, true)
	p.seen(ref{0, 6, 1}, now, false)
	for _, step := range []struct{ acknowledged, saved int64 }{{1, 2}, {5, 7}} {
		p.acknowledged([]ref{{0, step.acknowledged, 1}})
		if got := p.unsaved()[0]; got != (mark{Offset: step.saved, Epoch: 1}) {
			t.Errorf("after %d to be saved: %v", step.acknowledged, got)
		}
	}
}

func TestAnAcknowledgementTwiceMovesNothingBack(t *testing.T) {
	p := newPlaces(map[int32]mark{0: {Epoch: -1}})
	for offset := range int64(4) {
		p.seen(ref{0, offset, 0}, time.Unix(1000, 0), true)
	}
	p.acknowledged([]ref{{0, 2, 0}})
	p.acknowledged([]ref{{0, 1, 0}})
	if got := p.unsaved()[0].Offset; got != 3 {
		t.Errorf("to be saved: %d", got)
	}
}
