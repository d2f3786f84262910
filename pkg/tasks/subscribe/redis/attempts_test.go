package redis_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe/subscribetest"
)

// delivered is how often messages were delivered before.
func delivered(messages []subscribe.Message) (counts []int) {
	for _, m := range messages {
		counts = append(counts, m.Delivered)
	}
	return counts
}

// The group counts the owners that had an entry, and crashed perhaps. What was only read ahead does not count.
func TestAttemptsThatTheGroupCounts(t *testing.T) {
	r := newRig(t, 70)
	for n := range 4 {
		s := r.open(int64(n + 1))
		got := delivered(s.Take(70)) // 64 may be in flight
		if want := append(slices.Repeat([]int{n}, 64), slices.Repeat([]int{0}, 6)...); !slices.Equal(got, want) {
			t.Errorf("owner %d: delivered %v times before", n+1, got)
		}
		s.Close()
	}
}

// An owner that has failed with an entry several times sets the group's count.
func TestAttemptsSetTheGroupsCount(t *testing.T) {
	r := newRig(t, 3)
	s := r.open(1)
	s.Keep(5, s.Expect("0 1 2")[1])
	s.Close()
	s = r.open(2)
	if got := delivered(s.Expect("0 1 2")); !slices.Equal(got, []int{1, 5, 1}) {
		t.Errorf("delivered %v times before", got)
	}
}

// Attempts that cannot be read, or are of entries before the position, do not count.
func TestAttemptsInTheCheckpoint(t *testing.T) {
	r := newRig(t, 2)
	r.source.Offsets = "store"
	s := r.open(1)
	got := s.Expect("0 1")
	s.Keep(4, got...)
	s.Ack(got[0])
	s.Close()
	value, _ := r.Store.Held()
	if n := strings.Count(string(value), ":4"); n != 1 {
		t.Errorf("the checkpoint is %s", value)
	}
	s = r.open(2)
	if got := delivered(s.Expect("1")); got[0] != 4 {
		t.Errorf("delivered %v times before", got)
	}
	s.Close()
	broken := strings.Replace(string(value), ":4", `:"4"`, 1)
	r.Store = subscribetest.NewStore([]byte(broken))
	if got := delivered(r.open(3).Expect("1")); got[0] != 0 {
		t.Errorf("delivered %v times before, by %s", got, broken)
	}
}
