package access

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// Hosts are the names of a listener, in addition to those of loopback. Where there are none, a request that arrives
// over another address than loopback may ask under any name.
type Hosts []string

// ListenerHosts are the names that an operator has given, together with the one under which other replicas ask. None
// given are none.
func ListenerHosts(given []string, advertise string) Hosts {
	if len(given) == 0 {
		return nil
	}
	return append(slices.Clone(given), hostOf(advertise))
}

// Allow reports whether the request may be answered. A website that has its own name resolved to an address of this
// machine, or of its network, reaches the listener from a browser there; the name then stands in Host. An address in
// Host is no such name, and probes and scrapers ask by it. Over loopback only loopback's addresses count.
func (h Hosts) Allow(r *http.Request) bool {
	host := hostOf(r.Host)
	if host == "localhost" || strings.HasSuffix(host, ".localhost") || loopback(host) || slices.Contains(h, host) {
		return true
	}
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if ok && loopback(hostOf(local.String())) {
		return false
	}
	_, err := netip.ParseAddr(host)
	return len(h) == 0 || err == nil
}

// hostOf is the host of HOST or HOST:PORT, in lower case and without a closing dot.
func hostOf(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = strings.Trim(address, "[]")
	}
	return strings.TrimSuffix(strings.ToLower(host), ".")
}

func loopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return err == nil && address.Unmap().IsLoopback()
}

// SameOrigin says whether a request for a change does not come from another website's page. What is no browser sends
// neither header.
func SameOrigin(r *http.Request) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" {
		return false
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && strings.EqualFold(u.Host, r.Host)
}
