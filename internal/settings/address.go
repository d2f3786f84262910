package settings

import (
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
)

var hostOrIP = regexp.MustCompile(`^[A-Za-z0-9_.-]*$`)

// IsAddress says whether text is HOST:PORT, with a host that may be empty and a port that is a number.
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

// IsHost says whether text is a name or an address without a port, or empty.
func IsHost(text string) bool {
	if strings.Contains(text, ":") {
		_, err := netip.ParseAddr(text)
		return err == nil
	}
	return hostOrIP.MatchString(text)
}

// IsHostPort says whether others may reach a listener there: HOST:PORT with a host.
func IsHostPort(address string) bool { return IsAddress(address) && !strings.HasPrefix(address, ":") }

// SameAddress says whether one listener takes the other's address: the port is the same, and the host or one of them
// all there are.
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

// OnLoopback says whether a listener at the address is reached from the machine alone.
func OnLoopback(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return false
	}
	addr := hostAddr(host)
	return addr.IsValid() && addr.IsLoopback()
}
