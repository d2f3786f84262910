package settings

import (
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
)

var hostOrIP = regexp.MustCompile(`^[A-Za-z0-9_.-]*$`)

// IsAddress reports whether text is HOST:PORT with a numeric port. The host may be empty.
func IsAddress(text string) bool {
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		return false
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return false
	}
	return IsHost(host)
}

// IsHost reports whether text is empty, or a host name or an IP address without a port.
func IsHost(text string) bool {
	if strings.Contains(text, ":") {
		_, err := netip.ParseAddr(text)
		return err == nil
	}
	return hostOrIP.MatchString(text)
}

// IsHostPort reports whether address is HOST:PORT with a host, so that others may reach a listener there.
func IsHostPort(address string) bool { return IsAddress(address) && !strings.HasPrefix(address, ":") }

// SameAddress reports whether two listeners would collide: they have the same port, and either the same host or one of
// them listens on all addresses.
func SameAddress(a, b string) bool {
	hostA, portA, errA := net.SplitHostPort(a)
	hostB, portB, errB := net.SplitHostPort(b)
	portOf := func(text string) uint64 {
		port, _ := strconv.ParseUint(text, 10, 16)
		return port
	}
	if errA != nil || errB != nil || portOf(portA) != portOf(portB) || portOf(portA) == 0 {
		return false
	}
	addrA, addrB := hostAddr(hostA), hostAddr(hostB)
	if addrA.IsValid() && addrB.IsValid() {
		return addrA == addrB || addrA.IsUnspecified() || addrB.IsUnspecified()
	}
	return strings.EqualFold(hostA,
		hostB) || addrA.IsValid() && addrA.IsUnspecified() || addrB.IsValid() && addrB.IsUnspecified()
}

// hostAddr is a host as an address: an empty one is all of the machine's. It is not valid for a name.
func hostAddr(host string) netip.Addr {
	switch host {
	case "":
		return netip.IPv6Unspecified()
	case "localhost":
		return netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	addr, _ := netip.ParseAddr(host)
	return addr.Unmap()
}

// OnLoopback reports whether a listener at the address can be reached from this machine only.
func OnLoopback(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return false
	}
	addr := hostAddr(host)
	return addr.IsValid() && addr.IsLoopback()
}
