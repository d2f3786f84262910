package kafka

import (
	"sync"
	"time"

	"github.com/shardctl/shardctl/internal/subscribe"
	"github.com/shardctl/shardctl/internal/subscribe/internal/recall"
)

// places know for each partition what was received and what was acknowledged. They may be used concurrently.
type places struct {
	mu sync.Mutex
	of map[int32]*place
}

// place is one partition's.
type place struct {
	done     mark             // nothing below is still to be worked on
	saved    mark             // what positions hold
	next     mark             // after the last record that was seen
	waiting  []entry          // received and not acknowledged, in order
	attempts *recall.Attempts // by offset; nil: none
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
		at := &place{done: mark{Offset: m.Offset, Epoch: m.Epoch}, saved: m}
		if at.next = at.done; m.Attempts != "" {
			at.attempts = recall.ParseAttempts(m.Attempts)
		}
		p.of[partition] = at
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
	at.next = mark{Offset: r.offset + 1, Epoch: r.epoch}
	if waits {
		at.waiting = append(at.waiting, entry{r.offset, published})
	}
	at.advance()
}

// advance moves done past what no one waits for: marks of the log, aborted messages, gaps.
func (at *place) advance() {
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
		at.done = mark{Offset: r.offset + 1, Epoch: r.epoch}
		at.waiting = append(at.waiting[:0], at.waiting[n:]...)
		at.advance()
	}
}

// toSave is what positions are to hold.
func (at *place) toSave() mark {
	if at.attempts == nil {
		return at.done
	}
	at.attempts.DropBefore(at.done.Offset)
	return mark{at.done.Offset, at.done.Epoch, at.attempts.String()}
}

// delivered is how often a message was delivered before.
func (p *places) delivered(r ref) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at, ok := p.of[r.partition]; ok && at.attempts != nil {
		return at.attempts.Of(r.name())
	}
	return 0
}

// keep notes how often messages were delivered.
func (p *places) keep(messages []subscribe.Message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := map[*place]map[string]int{}
	for _, m := range messages {
		r, _ := m.Ref.(ref)
		at, ok := p.of[r.partition]
		if !ok {
			continue
		}
		if now[at] == nil {
			now[at] = map[string]int{}
		}
		now[at][r.name()] = m.Delivered
	}
	for at, some := range now {
		if at.attempts == nil {
			at.attempts = recall.ParseAttempts("")
		}
		at.attempts.Update(some)
	}
}

// unsaved are the marks that positions do not hold yet.
func (p *places) unsaved() map[int32]mark {
	p.mu.Lock()
	defer p.mu.Unlock()
	changed := map[int32]mark{}
	for partition, at := range p.of {
		if m := at.toSave(); m != at.saved {
			changed[partition] = m
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
