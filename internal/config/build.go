package config

import (
	"cmp"
	"errors"
	"net"
	"net/netip"
	"regexp"
	"strings"
	"time"

	"github.com/shardctl/shardctl/internal/decode"
	"github.com/shardctl/shardctl/internal/field"
	"github.com/shardctl/shardctl/internal/kind"
	"github.com/shardctl/shardctl/internal/settings"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// settingsReader builds settings out of nodes.
type settingsReader struct {
	fieldReader
	partial bool // a file could not be read: what is missing may stand there
}

// source is what of the settings came from outside the files, and what makes tasks.
type source struct {
	written       written // of all but groups
	databaseNamed bool    // the file names the store's database
	groups        []groupSource
}

// settings builds everything, from what the files say together, and their groups.
func (l settingsReader) settings(root *decode.Node, files []*decode.Node) (s *settings.Settings, from source) {
	s = &settings.Settings{
		Cluster:  l.matching(clusterName.MatchString, root.Get("cluster"), settings.DefaultCluster),
		Revision: l.Number(root.Get("revision")),
		Self: settings.Self{
			Instance: l.matching(settings.IsDNSName, root.Get("instance"), settings.HostName()),
			Zone:     l.matching(field.IsLabelValue, root.Get("zone"), ""),
			Labels:   field.ReadLabels(root.Get("labels"), l.Reader),
			MaxTasks: l.Count(root.Get("maxTasks")),
			Rollout:  l.matching(field.IsLabelValue, root.Get("rollout"), ""),
		},
		Lease:    l.lease(root.Get("lease")),
		Shutdown: settings.Shutdown{Timeout: l.Positive(root.At("shutdown", "timeout"), 25*time.Second, "")},
		Metrics:  settings.Metrics{PerTask: l.Truth(root.At("metrics", "perTask"))},
		Log: settings.Log{
			Level:  l.Text(root.At("log", "level"), "info"),
			Format: l.Text(root.At("log", "format"), "json"),
		},
	}
	s.Store, from.databaseNamed = l.store(root)
	s.Pod = l.pod(root.Get("pod"))
	s.Rebalance = l.rebalance(root.Get("rebalance"))
	s.Server = l.server(root.Get("server"))
	s.App = l.app(root.Get("app"))
	s.Admin = l.admin(root.Get("admin"))
	l.apart(root, s)
	from.written = written{}
	from.written.note("", root)
	s.ShownFields = kind.Declared
	s.Groups, from.groups = (&listReader{l.fieldReader, map[string]*decode.Node{}}).groups(files, s)
	l.assignable(root, s)
	return s, from
}

var clusterName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,63}$`)

func (l settingsReader) lease(n *decode.Node) settings.Lease {
	duration := n.Get("duration")
	lease := settings.Lease{Duration: l.Duration(duration, settings.DefaultLease)}
	if lease.Duration < settings.MinLease || lease.Duration > settings.MaxLease {
		l.Refuse(duration, "from 1s to 24h")
		lease.Duration = 20 * time.Second
	}
	most := lease.Duration * 3 / 4
	deadline := n.Get("renewDeadline")
	lease.RenewDeadline = l.Duration(deadline, most)
	if lease.RenewDeadline > most || lease.RenewDeadline <= 0 {
		l.Refuse(deadline,
			"more than 0s and at most "+decode.Short(most)+
				", three quarters of lease.duration "+decode.Short(lease.Duration))
		lease.RenewDeadline = most
	}
	return lease
}

func (l settingsReader) rebalance(n *decode.Node) settings.Rebalance {
	r := settings.Rebalance{
		Settle:       l.Duration(n.Get("settle"), settings.DefaultSettle),
		MaxMoves:     l.Count(n.Get("maxMoves")),
		OnRestart:    settings.OnRestart(l.Text(n.Get("onRestart"), string(settings.OnRestartMove))),
		RestartGrace: l.Duration(n.Get("restartGrace"), 0),
	}
	if r.OnRestart == settings.OnRestartWait && r.RestartGrace <= 0 {
		l.AddAt(n.Get("onRestart").Place, "rebalance.restartGrace",
			"must be more than 0s with onRestart: wait, it says how long to wait")
	}
	if r.OnRestart == settings.OnRestartMove && r.RestartGrace > 0 && !n.Get("onRestart").IsBad() {
		l.Refuse(n.Get("restartGrace"),
			"0s or left out with onRestart: move; with onRestart: wait it says how long to wait")
	}
	return r
}

func (l settingsReader) server(n *decode.Node) settings.Server {
	s := settings.Server{Listen: l.listen(n.Get("listen"), ":8080"), TLS: l.tls(n.Get("tls"))}
	s.Advertise = l.advertise(n.Get("advertise"), s.Listen)
	s.Hosts = l.hosts(n.Get("hosts"))
	s.Logs = settings.ServeLogs(l.Text(n.Get("logs"), string(settings.ServeLogsAuto)))
	s.Route = l.Truth(n.Get("route"))
	ca := n.Get("tls").Get("caFile")
	s.TLS.CAFile = l.Text(ca, "")
	if s.TLS.CAFile != "" && !s.TLS.Enabled() {
		l.AddAt(ca.Place, "server.tls.caFile",
			"needs certFile and keyFile: replicas trust each other by it when they serve TLS")
	}
	return s
}

func (l settingsReader) admin(n *decode.Node) settings.Admin {
	a := settings.Admin{
		Listen:     l.listen(n.Get("listen"), "127.0.0.1:8081"),
		TokensFile: l.Text(n.Get("tokensFile"), ""),
		TLS:        l.tls(n.Get("tls")),
	}
	listen := n.Get("listen")
	if listen == nil || listen.Bad {
		return a
	}
	if a.TokensFile == "" && !settings.OnLoopback(a.Listen) {
		l.AddAt(listen.Place, "admin.tokensFile",
			"is required, since admin.listen is %s and not on loopback: name a file with lines \"NAME TOKEN "+
				"[read|operate|admin]\"",
			listen.Quoted())
	}
	return a
}

// apart refuses two listeners at one address: the second could not be opened.
func (l settingsReader) apart(root *decode.Node, s *settings.Settings) {
	if !settings.SameAddress(s.Server.Listen, s.Admin.Listen) {
		return
	}
	if admin := root.At("admin", "listen"); admin != nil {
		l.Refuse(admin, "another address than server.listen, "+s.Server.Listen)
	} else if server := root.At("server", "listen"); server != nil {
		l.Refuse(server, "another address than admin.listen, by default "+s.Admin.Listen)
	}
}

func (l settingsReader) listen(n *decode.Node, unset string) string {
	listen := l.Text(n, unset)
	if n == nil || n.Bad {
		return unset
	}
	if !settings.IsAddress(listen) {
		l.Refuse(n, n.Rule.Allowed())
		return unset
	}
	return listen
}

// hosts are names without a port, in lower case.
func (l settingsReader) hosts(n *decode.Node) []string {
	var hosts []string
	for _, item := range n.List() {
		host := strings.ToLower(l.Text(item, ""))
		if item.IsBad() {
			continue
		}
		if host == "" || !settings.IsHost(host) {
			l.Refuse(item, "a name or an address, without a port")
			continue
		}
		hosts = append(hosts, host)
	}
	return hosts
}

// advertise is where others reach the server. It is what is written, with the port of listen when it has none; else the
// host of listen, $(POD_IP) or the machine's address.
func (l settingsReader) advertise(n *decode.Node, listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		host, port = "", "0"
	}
	written := l.Text(n, "")
	switch {
	case written == "":
		if addr, err := netip.ParseAddr(host); host == "" || err == nil && addr.IsUnspecified() {
			podIP, _ := l.opts.Env("POD_IP")
			host = cmp.Or(podIP, machineAddress())
		}
		return net.JoinHostPort(host, port)
	case settings.IsHostPort(written):
		return written
	case settings.IsAddress(net.JoinHostPort(strings.Trim(written, "[]"), port)):
		return net.JoinHostPort(strings.Trim(written, "[]"), port)
	}
	l.Refuse(n, "HOST:PORT or HOST")
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

func (l settingsReader) tls(n *decode.Node) settings.TLS {
	cert, key := n.Get("certFile"), n.Get("keyFile")
	t := settings.TLS{CertFile: l.Text(cert, ""), KeyFile: l.Text(key, "")}
	switch {
	case t.CertFile != "" && t.KeyFile == "" && (key == nil || !key.Bad):
		l.AddAt(cert.Place, decode.Under(n.Field(), "keyFile"), "is required with certFile")
	case t.KeyFile != "" && t.CertFile == "" && (cert == nil || !cert.Bad):
		l.AddAt(key.Place, decode.Under(n.Field(), "certFile"), "is required with keyFile")
	}
	return t
}

// store reads where locks are kept, and whether the file names the database. Its errors never quote the URI: it may
// hold a password, also where it is wrong.
func (l settingsReader) store(root *decode.Node) (s settings.Store, databaseNamed bool) {
	n, database := root.At("store", "uri"), root.At("store", "database")
	uri, ok := l.Value(n)
	if !ok {
		at := root
		if section := root.Get("store"); section != nil {
			at = section
		}
		if n == nil && !at.Bad && !l.partial {
			l.AddAt(at.Place, "store.uri", "is required: %s", driver.Forms())
		}
		return settings.Store{}, false
	}
	named := l.Text(database, "")
	c, err := driver.Parse(store.Config{URI: uri, Database: named})
	if wrong, ok := errors.AsType[*store.FieldError](err); ok {
		at := n
		if wrong.Field == "database" && database != nil {
			at = database
		}
		l.Add(at, "%s", wrong.Text)
	} else if err != nil {
		l.Add(n, "%v", err)
	}
	return settings.Store{
		URI: uri, Renew: Renewal(n.Raw, l.opts.Env), Database: c.Database,
		Withheld: SecretVariables(n.Raw, l.opts.Env), Written: n.Raw,
	}, named != ""
}

// pod reads both container and dir or neither; the UID is $(POD_UID) where none is written.
func (l settingsReader) pod(n *decode.Node) settings.Pod {
	uid, container, dir := n.Get("uid"), n.Get("container"), n.Get("dir")
	p := settings.Pod{UID: l.Text(uid, ""), Container: l.Text(container, ""), Dir: l.Text(dir, "")}
	written := func(n *decode.Node, text string) bool { return text != "" || n != nil && n.Bad }
	hasContainer, hasDir := written(container, p.Container), written(dir, p.Dir)
	switch {
	case hasContainer && !hasDir:
		l.AddAt(container.Place, "pod.dir",
			"is required with container: a directory that outlives the container and no more, such as an emptyDir")
	case hasDir && !hasContainer:
		l.AddAt(dir.Place, "pod.container", "is required with dir: the container's name in its pod")
	case !hasContainer && p.UID != "":
		l.AddAt(uid.Place, "pod", "needs container and dir with uid: all three, or none")
	case hasContainer && p.UID == "":
		p.UID, _ = l.opts.Env("POD_UID")
	}
	return p
}

// assignable refuses tasks that no application can run.
func (l settingsReader) assignable(root *decode.Node, s *settings.Settings) {
	if s.App.Listen != "" || root.At("app", "listen") != nil || l.partial {
		return
	}
	for i := range s.Groups {
		for j := range s.Groups[i].Tasks {
			if t := &s.Groups[i].Tasks[j]; t.Kind() == settings.Assign {
				l.AddAt(root.Place, "app.listen",
					"is required, since %s has assign: unix:/PATH, or HOST:PORT on loopback", t.Key())
				return
			}
		}
	}
}
