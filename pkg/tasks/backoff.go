package tasks

import (
	"math/rand/v2"
	"time"
)

// Delay is how long to wait after the given number of failures in a row (from 0). It is anything up to Initial doubled
// so many times, at most Max. It is drawn evenly from the whole range ("full jitter"), since tasks that failed together
// would otherwise come back together: https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/.
func (b Backoff) Delay(failures int) time.Duration {
	ceiling := b.ceiling(failures)
	if ceiling <= 0 {
		return 0
	}
	return rand.N(ceiling) + 1 //nolint:gosec // G404: it spreads load, nothing is to be kept secret
}

func (b Backoff) ceiling(failures int) time.Duration {
	ceiling := min(b.Initial, b.Max)
	for range failures {
		if ceiling >= b.Max-ceiling { // doubled it would pass Max, or overflow
			return b.Max
		}
		ceiling *= 2
	}
	return ceiling
}
