package engine

import (
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/record"
)

// countingCache is a store whose floor is a counter.
type countingCache struct {
	c     *Cache
	count int64
	now   time.Duration
}

// look has the group's counter rise, and reads what the cache wants. It returns the revision that it reads from.
func (s *countingCache) look(t *testing.T, floor int64, locks ...record.Lock) (from int64) {
	t.Helper()
	s.count++
	s.c.Look()
	p, ok := s.c.Plan(testAt(s.now))
	if !ok {
		t.Fatalf("nothing to read after %v", s.now)
	}
	r := Reading{
		Counts: map[string]int64{"g": s.count}, Locks: map[string][]*record.Lock{"g": {}}, Clock: 100_000, Floor: floor,
		Members: map[string]record.Member{}, Overrode: true,
	}
	from, ok = p.From("g", r)
	if !ok {
		t.Fatal("the group is not read")
	}
	for _, l := range locks {
		if l.Rev >= from {
			r.Locks["g"] = append(r.Locks["g"], &l)
		}
	}
	s.c.Refreshed(p, r, noneHeld, testAt(s.now))
	s.now += time.Second
	return from
}

// A counter that jumps says nothing of how long ago something was written: a writer that has not heard of the jump
// yet writes below it.
func TestWhatIsWrittenBelowAJumpIsRead(t *testing.T) {
	for name, before := range map[string]int64{"below the clock": 1_000, "above the clock": 4_000_000} {
		t.Run(name, func(t *testing.T) {
			s := &countingCache{c: testCache(t, "g")}
			for range 10 {
				s.look(t, before)
			}
			jumped := before + 1<<32
			s.look(t, jumped, record.Lock{Key: "g/above", Rev: jumped})
			s.look(t, jumped, record.Lock{Key: "g/below", Rev: before})
			if s.c.Lock("g/below") == nil {
				t.Error("what was written below the jump was not read")
			}
			for range 10 {
				s.look(t, jumped)
			}
			if from := s.look(t, jumped); from != jumped {
				t.Errorf("long after the jump it reads from %d, want %d", from, jumped)
			}
		})
	}
}

// A floor far above the clock does not have everything read each time.
func TestACounterAheadOfTheClockIsReadFromWhereItWas(t *testing.T) {
	s, floor := &countingCache{c: testCache(t, "g")}, int64(1<<40)
	lock := record.Lock{Key: "g/1", Rev: floor}
	for range 20 {
		floor += 1000
		lock.Rev = floor
		s.look(t, floor, lock)
	}
	// One a second: the floor was reached 7 s before the last reading, as heartbeats of T/10 and 5 s have it.
	if from, want := s.look(t, floor), floor-7*1000; from != want {
		t.Errorf("it reads from %d, want %d", from, want)
	}
}

// A correction that is older than what was read meanwhile is read again, whatever the floor says.
func TestACorrectionIsReadAgainWhereTheFloorIsACounter(t *testing.T) {
	s := &countingCache{c: testCache(t, "g")}
	for range 20 {
		s.look(t, 1<<40)
	}
	newest := record.Lock{Key: "g/1", Rev: 50, Session: "b"}
	s.c.Put(&newest)
	s.c.Correct("g/1", nil)
	s.look(t, 1<<40, newest)
	if s.c.Lock("g/1") == nil {
		t.Error("it was not read again")
	}
}

// A process that has just begun does not know where the floor was, and reads all that may have been written below it.
func TestWhoHasJustBegunReadsAll(t *testing.T) {
	s, lock := &countingCache{c: testCache(t, "g")}, record.Lock{Key: "g/1", Rev: 1 << 40}
	for i := range 8 {
		if from := s.look(t, 1<<40, lock); from != 0 {
			t.Fatalf("it reads from %d after %d s", from, i)
		}
	}
	if from := s.look(t, 1<<40); from != 1<<40 {
		t.Errorf("it reads from %d, and all for ever", from)
	}
}
