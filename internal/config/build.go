package config

import (
	"cmp"
	"net"
	"net/netip"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// settings builds everything, from what the files say together, and their groups.
func (l *loader) settings(root *node, files []*node) *Settings {
	s := &Settings{
		Cluster:  l.cluster(root),
		Instance: l.dns(root.get("instance"), hostName()),
		Zone:     l.label(root.get("zone")),
		Labels:   l.labels(root.get("labels")),
		Revision: l.number(root.get("revision")),
		MaxTasks: l.count(root.get("maxTasks")),
		Rollout:  l.label(root.get("rollout")),
		Store:    l.store(root),
		Lease:    l.lease(root.get("lease")),
		Shutdown: Shutdown{Timeout: l.positive(root.at("shutdown", "timeout"), 25*time.Second, "")},
		Metrics:  Metrics{PerTask: l.truth(root.at("metrics", "perTask"))},
		Log: Log{
			Level:  l.text(root.at("log", "level"), "info"),
			Format: l.text(root.at("log", "format"), "json"),
		},
	}
	s.Pod = l.pod(root.get("pod"))
	s.Rebalance = l.rebalance(root.get("rebalance"))
	s.Server = l.server(root.get("server"))
	s.Admin = l.admin(root.get("admin"), s.Server.Listen)
	s.Groups = l.groups(files, s)
	return s
}

var clusterName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,63}$`)

func (l *loader) cluster(root *node) string {
	n := root.get("cluster")
	name := l.text(n, "default")
	if !clusterName.MatchString(name) {
		l.refuse(n, allowed(n.schema))
	}
	return name
}

var noDNS = regexp.MustCompile(`[^a-z0-9.-]+`)

// hostName is the host's, made a DNS name where it is none.
func hostName() string {
	name, err := os.Hostname()
	if err != nil {
		return "localhost"
	}
	name = strings.Trim(noDNS.ReplaceAllString(strings.ToLower(name), "-"), "-.")
	if !dnsName.MatchString(name) {
		return "localhost"
	}
	return name
}

const (
	minLease = time.Second
	maxLease = 24 * time.Hour
)

func (l *loader) lease(n *node) Lease {
	duration := n.get("duration")
	lease := Lease{Duration: l.duration(duration, 20*time.Second)}
	if lease.Duration < minLease || lease.Duration > maxLease {
		l.refuse(duration, "from 1s to 24h")
		lease.Duration = 20 * time.Second
	}
	most := lease.Duration * 3 / 4
	deadline := n.get("renewDeadline")
	lease.RenewDeadline = l.duration(deadline, most)
	if lease.RenewDeadline > most || lease.RenewDeadline <= 0 {
		l.refuse(deadline, "more than 0s and at most "+short(most)+", three quarters of lease.duration "+short(lease.Duration))
		lease.RenewDeadline = most
	}
	return lease
}

func (l *loader) rebalance(n *node) Rebalance {
	r := Rebalance{
		Settle:       l.duration(n.get("settle"), 10*time.Second),
		MaxMoves:     l.count(n.get("maxMoves")),
		OnRestart:    OnRestart(l.text(n.get("onRestart"), string(OnRestartMove))),
		RestartGrace: l.duration(n.get("restartGrace"), 0),
	}
	if r.OnRestart == OnRestartWait && r.RestartGrace <= 0 {
		l.addAt(n.get("onRestart"), "rebalance.restartGrace", "must be more than 0s with onRestart: wait, it says how long to wait")
	}
	return r
}

func (l *loader) server(n *node) Server {
	s := Server{Listen: l.listen(n.get("listen"), ":8080"), TLS: l.tls(n.get("tls"))}
	s.Advertise = l.advertise(n.get("advertise"), s.Listen)
	ca := n.get("tls").get("caFile")
	s.TLS.CAFile = l.text(ca, "")
	if s.TLS.CAFile != "" && !s.TLS.Enabled() {
		l.addAt(ca, "server.tls.caFile", "needs certFile and keyFile: replicas trust each other by it when they serve TLS")
	}
	return s
}

func (l *loader) admin(n *node, server string) Admin {
	a := Admin{
		Listen:     l.listen(n.get("listen"), "127.0.0.1:8081"),
		TokensFile: l.text(n.get("tokensFile"), ""),
		TLS:        l.tls(n.get("tls")),
	}
	listen := n.get("listen")
	if listen == nil || listen.bad {
		return a
	}
	if a.TokensFile == "" && !onLoopback(a.Listen) {
		l.addAt(listen, "admin.tokensFile", "is required, since admin.listen is %s and not on loopback: name a file with lines \"NAME TOKEN\"", listen.quoted())
	}
	if a.Listen == server && !strings.HasSuffix(server, ":0") {
		l.refuse(listen, "another address than server.listen")
	}
	return a
}

func onLoopback(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return false
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.Unmap().IsLoopback()
	}
	return host == "localhost"
}

func (l *loader) listen(n *node, unset string) string {
	listen := l.text(n, unset)
	if n == nil || n.bad {
		return unset
	}
	if !isAddress(listen) {
		l.refuse(n, allowed(n.schema))
		return unset
	}
	return listen
}

var hostOrIP = regexp.MustCompile(`^[A-Za-z0-9_.-]*$`)

// isAddress says whether text is HOST:PORT, with a host that may be empty and a port that is a number.
func isAddress(text string) bool {
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		return false
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return false
	}
	if strings.Contains(host, ":") {
		_, err := netip.ParseAddr(host)
		return err == nil
	}
	return hostOrIP.MatchString(host)
}

// advertise is where others reach the server: what is written, with the port of listen when it has none; else the host of
// listen, $(POD_IP) or the machine's address.
func (l *loader) advertise(n *node, listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		host, port = "", "0"
	}
	written := l.text(n, "")
	switch {
	case written == "":
		if addr, err := netip.ParseAddr(host); host == "" || err == nil && addr.IsUnspecified() {
			podIP, _ := l.env("POD_IP")
			host = cmp.Or(podIP, machineAddress())
		}
		return net.JoinHostPort(host, port)
	case isAddress(written) && !strings.HasPrefix(written, ":"):
		return written
	case isAddress(net.JoinHostPort(strings.Trim(written, "[]"), port)):
		return net.JoinHostPort(strings.Trim(written, "[]"), port)
	}
	l.refuse(n, "HOST:PORT or HOST")
	return listen
}

// machineAddress is the first address of the machine that others may reach, an IPv4 one if there is any.
func machineAddress() string {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return "127.0.0.1"
	}
	var found string
	for _, a := range addrs {
		prefix, err := netip.ParsePrefix(a.String())
		if err != nil || !prefix.Addr().IsGlobalUnicast() {
			continue
		}
		if prefix.Addr().Is4() {
			return prefix.Addr().String()
		}
		found = cmp.Or(found, prefix.Addr().String())
	}
	return cmp.Or(found, "127.0.0.1")
}

func (l *loader) tls(n *node) TLS {
	cert, key := n.get("certFile"), n.get("keyFile")
	t := TLS{CertFile: l.text(cert, ""), KeyFile: l.text(key, "")}
	switch {
	case t.CertFile != "" && t.KeyFile == "" && (key == nil || !key.bad):
		l.addAt(cert, under(n.field(), "keyFile"), "is required beside certFile")
	case t.KeyFile != "" && t.CertFile == "" && (cert == nil || !cert.bad):
		l.addAt(key, under(n.field(), "certFile"), "is required beside keyFile")
	}
	return t
}
