package quorum

import (
	"sync"
	"time"
)

// A server that has not answered anything for silentAfter, though it was asked, is asked again only every probeEvery.
// Else requests that wait for it would gather, and keep it from being used when it is back.
const (
	silentAfter = 250 * time.Millisecond
	probeEvery  = 100 * time.Millisecond
	maxCalls    = 256 // at once
)

// pace decides whether a server is asked at all.
type pace struct {
	mu      sync.Mutex
	calls   int
	since   time.Time // from when on no answer has come
	probing time.Time // when it was last asked though it was silent
}

// begin says whether a request may go out now. Each that does ends with end.
func (p *pace) begin(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.calls == 0:
		p.since = now
	case p.calls >= maxCalls:
		return false
	case now.Sub(p.since) > silentAfter:
		if now.Sub(p.probing) < probeEvery {
			return false
		}
		p.probing = now
	}
	p.calls++
	return true
}

// end takes note that a request is over, and whether the server has answered it.
func (p *pace) end(answered bool, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls--
	if answered {
		p.since = now
	}
}
