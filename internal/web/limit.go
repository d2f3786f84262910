package web

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
func Client(r *http.Request) netip.Addr { return ClientAt(r.RemoteAddr) }

// ClientAt is [Client] of an address with a port.
func ClientAt(remote string) netip.Addr {
	from, err := netip.ParseAddrPort(remote)
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

// InFlight limits how many requests go on at once, in all and of one [Client]. Those over loopback are not counted.
type InFlight struct {
	Most, MostOfOne int // do not change once it is used

	mu  sync.Mutex
	all int
	of  map[netip.Addr]int
}

// Entry is what became of a request.
type Entry int

// What becomes of requests.
const (
	Entered    Entry = iota
	ClientFull       // its client has as many as one may have
	Full             // there are as many as there may be
)

// Enter counts one more, unless that is too many, until leave is called. To call leave again does nothing.
func (f *InFlight) Enter(client netip.Addr) (leave func(), entry Entry) {
	if client.IsLoopback() {
		return func() {}, Entered
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.all >= f.Most:
		return nil, Full
	case f.of[client] >= f.MostOfOne:
		return nil, ClientFull
	}
	if f.of == nil {
		f.of = map[netip.Addr]int{}
	}
	f.all++
	f.of[client]++
	return sync.OnceFunc(func() { f.leave(client) }), Entered
}

func (f *InFlight) leave(client netip.Addr) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all--
	if f.of[client]--; f.of[client] == 0 {
		delete(f.of, client)
	}
}
