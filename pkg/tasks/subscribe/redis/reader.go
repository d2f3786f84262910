package redis

import "context"

// How far a reader reads ahead: so many entries, of so many bytes in all as far as the last ones show.
const (
	aheadFirst = 16
	aheadMost  = 256
	aheadBytes = 1 << 20
)

// reader reads ahead, so that one request brings many entries. What it holds is pending, or still to be read again.
// One goroutine calls next.
type reader struct {
	// fetch waits for entries and gives from 1 to count of them. It ends with an error when the connection is closed.
	fetch   func(count int) ([]entry, error)
	answers chan answer
	running bool // a fetch is under way
	ready   []entry
	ahead   int // how many the next fetch asks for
}

type answer struct {
	entries []entry
	err     error
}

func newReader(fetch func(int) ([]entry, error)) *reader {
	return &reader{fetch: fetch, answers: make(chan answer, 1), ahead: aheadFirst}
}

// next gives from 1 to most entries. A fetch that is under way when ctx ends goes on, and the next call has its
// entries.
func (r *reader) next(ctx context.Context, most int) ([]entry, error) {
	if len(r.ready) == 0 {
		if !r.running {
			r.running = true
			count := r.ahead
			go func() {
				entries, err := r.fetch(count)
				r.answers <- answer{entries, err}
			}()
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case a := <-r.answers:
			r.running = false
			if a.err != nil {
				return nil, a.err
			}
			r.ready, r.ahead = a.entries, ahead(a.entries)
		}
	}
	n := min(max(most, 1), len(r.ready))
	entries := r.ready[:n:n]
	r.ready = r.ready[n:]
	return entries, nil
}

// wait returns when no fetch is under way. The connection must be closed.
func (r *reader) wait() {
	if r.running {
		<-r.answers
		r.running = false
	}
}

// ahead is how many entries to ask for, after these.
func ahead(last []entry) int {
	bytes := 0
	for _, e := range last {
		bytes += e.size()
	}
	if bytes == 0 {
		return aheadMost
	}
	return max(1, min(aheadMost, 2*len(last)+aheadFirst, aheadBytes*len(last)/bytes))
}
