package access

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// Hosts are the names, in addition to those of loopback, under which a request that arrives over a loopback address may
// ask.
type Hosts []string

// Allow says whether the request may be answered. A website that has its own name resolved to 127.0.0.1 reaches
// listeners of this machine; the name then stands in Host. Requests over other addresses, as Services and Ingresses
// send them, carry whatever name those have.
func (h Hosts) Allow(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok || !loopback(hostOf(local.String())) {
		return true
	}
	host := hostOf(r.Host)
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || loopback(host) || slices.Contains(h, host)
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
