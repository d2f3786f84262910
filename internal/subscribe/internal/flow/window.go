package flow

import "slices"

// window counts the messages that are held: those of a partition with a message that failed by themselves, and those of
// all other partitions together.
type window[M any] struct {
	limit        int
	perPartition bool // see [Rules]
	parts        map[string]*part[M]
	apart        []*part[M] // have a message that failed
	held         int        // messages of all others
}

// free is how many more messages may be received, of partitions that are not full.
func (w *window[M]) free() int {
	free := max(0, w.limit-w.held)
	for _, p := range w.apart {
		if left := w.limit - p.held; left > 0 {
			free = min(free, left)
		}
	}
	return free
}

// full are the partitions of which no more messages may be received.
func (w *window[M]) full() (names []string) {
	for _, p := range w.apart {
		if p.held >= w.limit {
			names = append(names, p.name)
		}
	}
	return names
}

// partOf is a partition, a new one where there is none.
func (w *window[M]) partOf(name string) *part[M] {
	p := w.parts[name]
	if p == nil {
		p = &part[M]{name: name}
		w.parts[name] = p
	}
	return p
}

// hold counts n more messages of a partition as held.
func (w *window[M]) hold(p *part[M], n int) {
	if p.held += n; !p.apart {
		w.held += n
	}
	if p.held == 0 {
		delete(w.parts, p.name)
	}
}

// single notes that a message failed: it is delivered by itself from now on.
func (w *window[M]) single(item *Item[M]) {
	if item.alone {
		return
	}
	item.alone = true
	p := item.part
	if p.failing++; w.perPartition && !p.apart {
		p.apart = true
		w.apart = append(w.apart, p)
		w.held -= p.held
	}
}

// rejoin notes that a message of a partition that had failed is done.
func (w *window[M]) rejoin(p *part[M]) {
	if p.failing--; p.failing == 0 && p.apart {
		p.apart = false
		w.apart = slices.DeleteFunc(w.apart, func(other *part[M]) bool { return other == p })
		w.held += p.held
	}
}
