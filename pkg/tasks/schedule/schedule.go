// Package schedule says when a task is due, from a cron expression or a period. Its values depend on nothing but how they
// were made, and read no clock.
package schedule

import (
	"fmt"
	"hash/fnv"
	"time"
	_ "time/tzdata" // time zones also where the system has none
)

// Schedule says when a task is due. It is a value that depends on nothing but its making, so that every replica
// fires the same ticks.
type Schedule interface {
	// Next is the first tick after the given moment; the zero time when there is none.
	Next(after time.Time) time.Time
}

// every fires at offset + k × period, in Unix milliseconds.
type every struct{ period, offset int64 }

// Every fires at epoch + hash(key) mod every + k × every. There hash is the 64-bit FNV-1a of the key's bytes,
// and every and the remainder count in milliseconds. So tasks with one period are spread over it, and a fail-over
// neither shifts nor doubles a tick. It fails when every is not a positive number of whole milliseconds.
func Every(key string, period time.Duration) (Schedule, error) {
	if period < time.Millisecond || period%time.Millisecond != 0 {
		return nil, fmt.Errorf("every: %s is not a positive number of whole milliseconds", period)
	}
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(key)) // a hash's Write never fails
	//nolint:gosec // G115: it was checked to be positive
	ms := uint64(period.Milliseconds())
	//nolint:gosec // G115: less than period
	return every{period: period.Milliseconds(), offset: int64(hash.Sum64() % ms)}, nil
}

// Next is the first tick after the given moment.
func (e every) Next(after time.Time) time.Time {
	since := after.UnixMilli() - e.offset
	k := since / e.period
	if since < 0 && since%e.period != 0 {
		k-- // division rounds towards zero, ticks are counted upwards from below
	}
	return time.UnixMilli(e.offset + (k+1)*e.period).UTC()
}

// Newest is the latest tick up to now, no further back than window; the zero time when there is none.
func Newest(s Schedule, now time.Time, window time.Duration) time.Time {
	return NewestIn(s, time.Time{}, now, window)
}

// NewestIn is the latest tick in (after, now], the zero time when there is none. It looks no further back than
// window before now.
func NewestIn(s Schedule, after, now time.Time, window time.Duration) time.Time {
	if earliest := now.Add(-window); after.Before(earliest) {
		after = earliest.Add(-1) // a tick exactly window ago is in it
	}
	var found time.Time
	// From ever further back, so that a long window costs no more than the ticks near its end.
	for back := time.Minute; ; back *= 2 {
		from := now.Add(-back)
		whole := !from.After(after)
		if whole {
			from = after
		}
		for t := s.Next(from); !t.IsZero() && !t.After(now); t = s.Next(t) {
			found = t
		}
		if whole || !found.IsZero() {
			return found
		}
	}
}
