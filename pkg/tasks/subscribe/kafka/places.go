package kafka

import (
	"sync"
	"time"
)

// places know for each partition what was received and what was acknowledged. They may be used concurrently.
type places struct {
	mu sync.Mutex
	of map[int32]*place
}

// place is one partition's.
type place struct {
	done    mark    // nothing below is still to be worked on
	saved   mark    // what positions hold
	next    mark    // after the last record that was seen
	waiting []entry // received and not acknowledged, in order
}

type entry struct {
	offset int64
	time   time.Time
}

func newPlaces(begin map[int32]mark) *places {
	p := &places{of: map[int32]*place{}}
	p.add(begin)
	return p
}

// add takes partitions in that begin at marks, which are saved.
func (p *places) add(begin map[int32]mark) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for partition, m := range begin {
		p.of[partition] = &place{done: m, saved: m, next: m}
	}
}

// seen notes a record. No one waits for what is only a mark of the log, such as the end of a transaction.
func (p *places) seen(r ref, published time.Time, waits bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at, ok := p.of[r.partition]
	if !ok {
		return
	}
	at.next = mark{r.offset + 1, r.epoch}
	if waits {
		at.waiting = append(at.waiting, entry{r.offset, published})
	}
	at.settle()
}

// settle moves done past what no one waits for: marks of the log, aborted messages, gaps.
func (at *place) settle() {
	if len(at.waiting) == 0 {
		at.done = at.next
	}
}

// acknowledged notes messages as worked on, with all before them.
func (p *places) acknowledged(refs []ref) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range refs {
		at, ok := p.of[r.partition]
		if !ok {
			continue
		}
		n := 0
		for n < len(at.waiting) && at.waiting[n].offset <= r.offset {
			n++
		}
		if n == 0 {
			continue
		}
		at.done = mark{r.offset + 1, r.epoch}
		at.waiting = append(at.waiting[:0], at.waiting[n:]...)
		at.settle()
	}
}

// unsaved are the marks that positions do not hold yet.
func (p *places) unsaved() map[int32]mark {
	p.mu.Lock()
	defer p.mu.Unlock()
	changed := map[int32]mark{}
	for partition, at := range p.of {
		if at.done != at.saved {
			changed[partition] = at.done
		}
	}
	return changed
}

// wereSaved notes what positions hold.
func (p *places) wereSaved(marks map[int32]mark) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for partition, m := range marks {
		p.of[partition].saved = m
	}
}

// kept are the marks that positions hold.
func (p *places) kept() map[int32]mark {
	p.mu.Lock()
	defer p.mu.Unlock()
	marks := map[int32]mark{}
	for partition, at := range p.of {
		marks[partition] = at.saved
	}
	return marks
}

// behind is how many offsets the places are behind the ends, and when the oldest message that waits was published.
func (p *places) behind(ends map[int32]int64) (offsets int64, oldest time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for partition, at := range p.of {
		offsets += max(0, ends[partition]-at.done.Offset)
		if len(at.waiting) == 0 {
			continue
		}
		if t := at.waiting[0].time; oldest.IsZero() || t.Before(oldest) {
			oldest = t
		}
	}
	return offsets, oldest
}

// partitions are those that are consumed.
func (p *places) partitions() []int32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := make([]int32, 0, len(p.of))
	for partition := range p.of {
		list = append(list, partition)
	}
	return list
}
