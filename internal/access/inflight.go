package access

import (
	"net/netip"
	"sync"
)

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
