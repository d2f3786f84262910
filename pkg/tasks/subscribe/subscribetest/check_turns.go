package subscribetest

import (
	"slices"
	"time"
)

const (
	turns = 5               // of opening, waiting for a message that does not come, and closing
	quick = 2 * time.Second // a Close that takes longer waits for something, such as the answer to a long poll
)

// checkTurns: Close returns at once after a Receive that has just waited, as in each hand-over. The next owner waits
// for that. The log says what an Open and a Close take.
func checkTurns(s *scene) {
	s.Helper()
	var opens, closes []time.Duration
	for range turns {
		began := time.Now()
		c := s.open()
		opens = append(opens, time.Since(began))
		if messages, err := c.tryReceive(64, moment); err == nil {
			s.Fatalf("Receive returned %d messages: none were published", len(messages))
		}
		began = time.Now()
		c.close()
		closes = append(closes, time.Since(began))
	}
	s.Logf("medians of %d: Open took %s, Close took %s", turns, median(opens), median(closes))
	if took := median(closes); took > quick {
		s.Fatalf("Close after a Receive that was interrupted took %s, the median of %d: want at most %s", took, turns,
			quick)
	}
}

func median(all []time.Duration) time.Duration {
	return slices.Sorted(slices.Values(all))[len(all)/2]
}
