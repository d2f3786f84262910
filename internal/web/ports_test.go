package web

import (
	"net"
	"slices"
	"testing"
)

func TestFreeAddressesDifferAndCanBeListenedOn(t *testing.T) {
	addrs, err := FreeAddresses(t.Context(), 20)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(addrs)
	if n := len(slices.Compact(slices.Clone(addrs))); n != 20 {
		t.Errorf("%d different addresses, want 20", n)
	}
	listening := 0 // another process may be faster with one, hardly with most
	for _, addr := range addrs {
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", addr)
		if err != nil {
			t.Log(err)
			continue
		}
		listening++
		_ = l.Close()
	}
	if listening < 10 {
		t.Errorf("%d of 20 addresses are free", listening)
	}
}

func TestFreePortsNamesWhatFails(t *testing.T) {
	if _, err := FreePorts(t.Context(), "192.0.2.1", 1); err == nil { // reserved for documentation
		t.Error("a port of another machine")
	}
}
