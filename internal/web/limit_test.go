package web

import (
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"
)

func TestWrongTokensAreSlowedDown(t *testing.T) {
	var l Limiter
	now := time.Now()
	a, b := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	for range failuresAllowed {
		if wait := l.Wait(a, now); wait != 0 {
			t.Fatalf("waits %v", wait)
		}
		l.Failed(a, now)
	}
	if wait := l.Wait(a, now.Add(time.Second)); wait != failureSpan-time.Second {
		t.Errorf("waits %v", wait)
	}
	if wait := l.Wait(b, now); wait != 0 {
		t.Errorf("another address waits %v", wait)
	}
	if wait := l.Wait(a, now.Add(failureSpan)); wait != 0 {
		t.Errorf("waits %v after the span", wait)
	}
	// One network of IPv6 is one address, and what is remembered is bounded.
	for i := range failuresAllowed {
		l.Failed(netip.AddrFrom16([16]byte{0x20, 1, 15: byte(i)}), now)
	}
	if l.Wait(netip.MustParseAddr("2001::ffff"), now) == 0 {
		t.Error("another address of the same network does not wait")
	}
	for i := range 2 * maxAddresses {
		l.Failed(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), now)
	}
	if n := len(l.byAddress); n > maxAddresses+1 {
		t.Errorf("%d addresses are remembered", n)
	}
}

// What goes on at once is limited for each client and for all, loopback not counted.
func TestInFlightIsLimited(t *testing.T) {
	f := InFlight{Most: 3, MostOfOne: 2}
	var leave func()
	for _, c := range []struct {
		client string
		want   Entry
	}{
		{"192.0.2.1", Entered},
		{"192.0.2.1", Entered},
		{"192.0.2.1", ClientFull},
		{"192.0.2.2", Entered},
		{"192.0.2.2", Full},
		{"192.0.2.3", Full},
		{"127.0.0.1", Entered},
		{"::1", Entered},
	} {
		left, got := f.Enter(netip.MustParseAddr(c.client))
		if got != c.want {
			t.Errorf("%s: %v, want %v", c.client, got, c.want)
		}
		if c.client == "192.0.2.1" && got == Entered {
			leave = left
		}
	}
	leave()
	leave() // which does nothing
	for _, want := range []Entry{Entered, Full} {
		if _, got := f.Enter(netip.MustParseAddr("192.0.2.3")); got != want {
			t.Errorf("after one has left: %v, want %v", got, want)
		}
	}
}

// A client is an address, or a network of IPv6.
func TestClientsAreAddressesOrNetworks(t *testing.T) {
	for remote, want := range map[string]string{
		"192.0.2.1:5": "192.0.2.1", "[::ffff:192.0.2.1]:5": "192.0.2.1", "[::1]:5": "::1", "127.0.0.9:5": "127.0.0.9",
		"[2001:db8:0:1:2:3:4:5]:6": "2001:db8:0:1::", "[fe80::1%eth0]:5": "fe80::", "@": "invalid IP",
	} {
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)
		r.RemoteAddr = remote
		if got := Client(r).String(); got != want {
			t.Errorf("%s is %s, want %s", remote, got, want)
		}
	}
}
