package cache

import (
	"maps"
	"time"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
)

const (
	pollGap = 250 * time.Millisecond // between readings of the counters where the store cannot watch
	minGap  = 50 * time.Millisecond  // between two refreshes
	never   = time.Hour
)

// refresher is what is to be read, and when.
type refresher struct {
	lease    time.Duration
	counts   map[string]int64 // of every counter, as last read
	want     want
	schedule schedule
	skew     skew
	floors   floors
}

// want is what the next refresh is to read.
type want struct{ counters, full, members, overrides bool }

func (w want) any() bool { return w.counters || w.full || w.members || w.overrides }

// schedule is when to refresh.
type schedule struct {
	busy     bool
	watching bool             // the store sends notifications
	last     protocol.Instant // start of the last refresh
	took     time.Duration
	polled   protocol.Instant
}

// newRefresher wants to read everything.
func newRefresher(lease time.Duration, now protocol.Instant) refresher {
	return refresher{
		lease: lease, counts: map[string]int64{}, schedule: schedule{polled: now.Add(-lease)},
		want: want{counters: true, members: true, overrides: true},
	}
}

// Look makes the next refresh read what a notification, or the lack of them, points at.
func (r *refresher) Look() { r.want.counters = true }

// LookAtOverrides makes the next refresh read the overrides.
func (r *refresher) LookAtOverrides() { r.want.overrides = true }

// LookAtMembers makes the next refresh read the members.
func (r *refresher) LookAtMembers() { r.want.members = true }

// Counted says whether a counter stands where it was last read.
func (r *refresher) Counted(counter string, count int64) bool { return r.counts[counter] == count }

// note takes where a counter stands now, and says whether it has moved.
func (r *refresher) note(counter string, count int64) bool {
	if r.Counted(counter, count) {
		return false
	}
	r.counts[counter] = count
	return true
}

// Skewed takes how many ms the clock of another writer was behind this process's when a heartbeat of it was first
// seen.
func (r *refresher) Skewed(behind int64) {
	if r.skew.notice(behind, r.lease) {
		r.want.full = true
	}
}

// Turn lets a clock skew that was not seen again be forgotten the time after. It is called every T.
func (r *refresher) Turn() { r.skew.turn() }

// Wait is how long the loop may sleep before Plan has something to read.
func (r *refresher) Wait(now protocol.Instant) time.Duration {
	switch s := r.schedule; {
	case s.busy:
		return never
	case r.want.any():
		return r.gap() - now.HolderElapsed(s.last)
	case !s.watching:
		return pollGap - now.HolderElapsed(s.polled)
	}
	return never
}

// gap is the least time between two refreshes: short when reading is cheap. It is never longer than T/4. What one of
// them took on a bad day, or while the process was frozen, says nothing about the next.
func (r *refresher) gap() time.Duration { return min(max(minGap, 3*r.schedule.took), r.lease/4) }

// begin begins a refresh and says what it is to read; ok is false when it is not time, or one is under way.
func (r *refresher) begin(now protocol.Instant) (wanted want, ok bool) {
	s := &r.schedule
	poll := pollGap
	if s.watching {
		poll = r.lease // notifications may be lost
	}
	if now.Reached(s.polled, poll) {
		s.polled, r.want.counters = now, true
	}
	if s.busy || !r.want.any() || !now.Reached(s.last, r.gap()) {
		return want{}, false
	}
	wanted, r.want = r.want, want{}
	s.busy, s.last = true, now
	return wanted, true
}

// failed ends a refresh that read nothing: all of it is wanted again.
func (r *refresher) failed(wanted want, took time.Duration) {
	r.schedule.busy, r.schedule.took = false, took
	r.want = want{
		counters: true, full: r.want.full || wanted.full,
		members: r.want.members || wanted.members, overrides: r.want.overrides || wanted.overrides,
	}
}

// read ends a refresh that found the counters at counts. It returns those that have moved.
func (r *refresher) read(counts map[string]int64, took time.Duration) (moved []string) {
	r.schedule.busy, r.schedule.took = false, took
	for name, count := range counts {
		if r.counts[name] != count {
			moved = append(moved, name)
		}
	}
	r.counts = maps.Clone(counts) // the caller's is part of what it has read
	if r.counts == nil {
		r.counts = map[string]int64{}
	}
	return moved
}
