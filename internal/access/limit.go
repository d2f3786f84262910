package access

import (
	"net/http"
	"net/netip"
	"sync"
	"time"
)

const (
	failuresAllowed = 10          // of one address within failureSpan; more wait
	failureSpan     = time.Minute // from the first failure on
	maxAddresses    = 10_000      // remembered; beyond, all that are not share one
)

// Client is the address that a request came from. All of one IPv6 network of 64 bits count as one.
func Client(r *http.Request) netip.Addr {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return clientOf(from.Addr())
}

func clientOf(address netip.Addr) netip.Addr {
	address = address.Unmap().WithZone("")
	if address.Is6() && !address.IsLoopback() {
		if network, err := address.Prefix(64); err == nil {
			address = network.Addr()
		}
	}
	return address
}

// Limiter counts wrong tokens by [Client].
type Limiter struct {
	mu        sync.Mutex
	byAddress map[netip.Addr]failures
	forgot    time.Time // when those that no longer count were dropped
}

type failures struct {
	n     int
	since time.Time
}

// Wait is how long an address has to wait after too many wrong tokens; 0: not at all.
func (l *Limiter) Wait(address netip.Addr, now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.byAddress[l.slot(address)]
	if f.n < failuresAllowed {
		return 0
	}
	return max(0, f.since.Add(failureSpan).Sub(now))
}

// Failed notes a wrong token.
func (l *Limiter) Failed(address netip.Addr, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget(now)
	slot := l.slot(address)
	f := l.byAddress[slot]
	if f.n == 0 || now.Sub(f.since) >= failureSpan {
		f = failures{since: now}
	}
	f.n++
	l.byAddress[slot] = f
}

// forget drops what no longer counts, now and then: each look is at all of them.
func (l *Limiter) forget(now time.Time) {
	if l.byAddress == nil {
		l.byAddress = map[netip.Addr]failures{}
	}
	if now.Sub(l.forgot) < failureSpan/4 {
		return
	}
	l.forgot = now
	for known, f := range l.byAddress {
		if now.Sub(f.since) >= failureSpan {
			delete(l.byAddress, known)
		}
	}
}

// slot is where a client's failures are counted.
func (l *Limiter) slot(address netip.Addr) netip.Addr {
	address = clientOf(address)
	if _, known := l.byAddress[address]; !known && len(l.byAddress) >= maxAddresses {
		return netip.Addr{}
	}
	return address
}
