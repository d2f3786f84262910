package dbstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Limit is how long an attempt to connect may take, by the time of a call: a third of the lease, and 5 s at least. The
// round trips of a handshake around the world fit into that many times, while calls of a short lease are much shorter.
func Limit(call time.Duration) time.Duration { return max(2*call, 5*time.Second) }

// firstPause is between the first attempt that failed and the next one.
const firstPause = 20 * time.Millisecond

// Maker makes the connections of one store to its database: one attempt at a time, however many calls want one, and
// with pauses between attempts that fail.
//
// An attempt belongs to the store and not to the call that wants a connection. A call may be much shorter than it takes
// to connect; what is made after it has ended waits for the next call. So a store that is far away works as soon as a
// call has the time of a round trip. A call that has nearly ended gets no new connection: what it sends would not be
// answered in time, and the connection would be given up for that.
//
// Pauses double from 20 ms up to the time of one call, and only a connection that has served a call ends them
// ([Maker.Served]): a server that accepts connections and then refuses what they ask for is not flooded either.
//
// The methods may be called concurrently.
type Maker[C any] struct {
	life    *Life
	connect func(ctx context.Context, failed int) (C, error)
	discard func(C)
	limit   time.Duration // of an attempt
	most    time.Duration // of a pause

	mu      sync.Mutex
	waiting []*wish[C] // in the order in which they are served
	spare   *C         // what no one waited for any more
	// needs is how much of its time a call must have left to get a connection: half of what it took to connect, which
	// is several round trips.
	needs  time.Duration
	making bool      // an attempt is under way, or waits for its time
	failed int       // attempts in a row that came to nothing
	since  time.Time // when the last of them ended
	last   error     // why
}

// wish is a call that wants a connection.
type wish[C any] struct {
	first bool
	end   time.Time    // of the call; zero: it has none
	got   chan made[C] // of one element
}

// errShort is told to a call that has too little time left for a new connection.
var errShort = errors.New("a connection is made, and too little time was left to use it")

type made[C any] struct {
	conn C
	err  error
}

// NewMaker makes connections by a function, each within a limit, and gives up those that no one takes any more by
// another. call is the time of one call, a sixth of the lease: no pause is longer. The function is told how many
// attempts in a row have failed before, so that it may have more patience with each of several hosts. The end of ctx does
// not end the maker.
func NewMaker[C any](
	ctx context.Context, call, limit time.Duration, connect func(ctx context.Context, failed int) (C, error),
	discard func(C),
) *Maker[C] {
	return &Maker[C]{
		life: NewLife(ctx, 0), connect: connect, discard: discard,
		limit: limit, most: max(call, firstPause),
	}
}

// Patience is how long one of several hosts may take to answer: at first only so long, so that the next is soon asked,
// and twice as long with each attempt that has failed, up to its part of the limit of an attempt. A single one has all of
// that.
func Patience(first, limit time.Duration, hosts, failed int) time.Duration {
	if hosts <= 1 {
		return limit
	}
	return min(first<<min(failed, 10), limit/time.Duration(hosts))
}

// Get returns a connection that no one else has. first puts a call before others that wait. When ctx ends before there
// is one, the error holds its cause and the one of the last attempt that failed. When an attempt fails, all who wait
// for it get its error.
func (m *Maker[C]) Get(ctx context.Context, first bool) (conn C, err error) {
	if err := context.Cause(ctx); err != nil {
		return conn, err
	}
	w := &wish[C]{first: first, got: make(chan made[C], 1)}
	w.end, _ = ctx.Deadline()
	if !m.want(w) {
		return conn, ErrClosed
	}
	select {
	case r := <-w.got:
		return r.conn, r.err
	case <-ctx.Done():
	}
	return m.leave(w, fmt.Errorf("%w: no connection", context.Cause(ctx)))
}

// want has w wait, unless there is a connection already. False: the store is closed.
func (m *Maker[C]) want(w *wish[C]) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.spare != nil {
		if m.hand(w, *m.spare) {
			m.spare = nil
		}
		return true
	}
	at := len(m.waiting)
	if w.first {
		at = slices.IndexFunc(m.waiting, func(other *wish[C]) bool { return !other.first })
		if at < 0 {
			at = len(m.waiting)
		}
	}
	m.waiting = slices.Insert(m.waiting, at, w)
	if !m.making {
		m.making = m.life.Go(m.run)
	}
	return m.making
}

// leave takes back a wish whose call has ended, unless it was served meanwhile.
func (m *Maker[C]) leave(w *wish[C], why error) (conn C, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.waiting = slices.DeleteFunc(m.waiting, func(other *wish[C]) bool { return other == w })
	select {
	case r := <-w.got:
		return r.conn, r.err
	default:
	}
	return conn, m.late(why)
}

// Late is what a call is told that has ended before its turn came to use a connection: why, and the last attempt that
// failed, where none has served a call since.
func (m *Maker[C]) Late(why error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.late(why)
}

func (m *Maker[C]) late(why error) error {
	if m.last == nil {
		return why
	}
	return fmt.Errorf("%w: the last attempt to connect: %w", why, m.last)
}

// run makes connections for as long as somebody waits.
func (m *Maker[C]) run() {
	for {
		m.mu.Lock()
		if len(m.waiting) == 0 || m.life.Context().Err() != nil { // in the latter case Close tells those who wait
			m.making = false
			m.mu.Unlock()
			return
		}
		failed, pause := m.failed, time.Until(m.since.Add(m.pause()))
		m.mu.Unlock()
		if pause > 0 {
			m.sleep(pause)
			continue // who waited may have left
		}
		m.attempt(failed)
	}
}

// pause is how long after the last attempt that failed the next one begins.
func (m *Maker[C]) pause() time.Duration {
	if m.failed == 0 {
		return 0
	}
	pause := firstPause
	for range m.failed - 1 {
		if pause *= 2; pause >= m.most {
			return m.most
		}
	}
	return pause
}

// sleep waits for a pause in steps, since a connection that serves a call ends it.
func (m *Maker[C]) sleep(pause time.Duration) {
	timer := time.NewTimer(min(pause, firstPause))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-m.life.Context().Done():
	}
}

// attempt makes one connection, and hands it over.
func (m *Maker[C]) attempt(failed int) {
	ctx, cancel := context.WithTimeout(m.life.Context(), m.limit)
	began := time.Now()
	conn, err := m.connect(ctx, failed)
	cancel()
	if err != nil {
		m.fail(err)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.needs = min(time.Since(began), m.most) / 2
	for len(m.waiting) > 0 {
		w := m.waiting[0]
		m.waiting = m.waiting[1:]
		if m.hand(w, conn) {
			return
		}
	}
	m.spare = &conn
}

// hand gives a connection to a call, unless that has nearly ended.
func (m *Maker[C]) hand(w *wish[C], conn C) bool {
	if !w.end.IsZero() && time.Until(w.end) < m.needs {
		w.got <- made[C]{err: m.late(errShort)}
		return false
	}
	w.got <- made[C]{conn: conn}
	return true
}

// fail takes note of an attempt that has failed, and tells all who wait.
func (m *Maker[C]) fail(why error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.count(why)
	m.tell(why)
}

// tell tells all who wait why there is no connection.
func (m *Maker[C]) tell(why error) {
	for _, w := range m.waiting {
		w.got <- made[C]{err: why}
	}
	m.waiting = nil
}

// count counts an attempt that came to nothing.
func (m *Maker[C]) count(why error) {
	m.failed++
	m.since, m.last = time.Now(), why
}

// Served says that a connection has served a call: the next attempt begins at once.
func (m *Maker[C]) Served() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failed, m.last = 0, nil
}

// Spoiled says that a connection has come to its end before it has served a call, and why. That counts as an attempt
// that failed.
func (m *Maker[C]) Spoiled(why error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.count(why)
}

// Fresh gives up a connection that waits for a call: it may be one to a server that was replaced since.
func (m *Maker[C]) Fresh() {
	m.mu.Lock()
	spare := m.spare
	m.spare = nil
	m.mu.Unlock()
	if spare != nil {
		m.discard(*spare)
	}
}

// Close ends the attempt that is under way, and gives up what was made for no one. Calls that wait end with
// [ErrClosed].
func (m *Maker[C]) Close() {
	m.life.End()
	m.mu.Lock()
	m.tell(ErrClosed)
	m.mu.Unlock()
	m.Fresh()
}
