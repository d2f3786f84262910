package config

import (
	"cmp"
	"errors"
	"net"
	"net/netip"
	"path/filepath"
	"strings"

	"github.com/shardctl/shardctl/internal/decode"
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
	written written // of all but groups
	groups  []groupSource
}

// settings builds everything, from what the files say together, and their groups.
func (l settingsReader) settings(root *decode.Node, files []*decode.Node) (s *settings.Settings, from source) {
	s = &settings.Settings{}
	settings.FieldsOf(s, nil).Read(root, l.Reader)
	l.store(root, &s.Store)
	l.pod(root.Get("pod"), &s.Pod)
	l.lease(root.Get("lease"), &s.Lease)
	l.rebalance(root.Get("rebalance"), &s.Rebalance)
	l.server(root.Get("server"), &s.Server)
	l.app(root.Get("app"), &s.App)
	l.admin(root.Get("admin"), &s.Admin)
	l.apart(root, s)
	from.written = written{}
	from.written.note("", root)
	s.ShownFields = kind.Declared
	s.Groups, from.groups = groupReader{taskReader{l.fieldReader, s}, named{}}.groups(files)
	l.assignable(root, s)
	return s, from
}

func (l settingsReader) lease(n *decode.Node, is *settings.Lease) {
	if is.Duration < settings.MinLease || is.Duration > settings.MaxLease {
		l.Refuse(n.Get("duration"), "from 1s to 24h")
		is.Duration = settings.DefaultLease
	}
	most := is.Duration * 3 / 4
	deadline := n.Get("renewDeadline")
	switch {
	case deadline == nil:
		is.RenewDeadline = most
	case is.RenewDeadline > most || is.RenewDeadline <= 0:
		l.Refuse(deadline, "more than 0s and at most "+decode.Short(most)+
			", three quarters of lease.duration "+decode.Short(is.Duration))
	}
}

func (l settingsReader) rebalance(n *decode.Node, is *settings.Rebalance) {
	if is.OnRestart == settings.OnRestartWait && is.RestartGrace <= 0 {
		l.AddAt(n.Get("onRestart").Place, "rebalance.restartGrace",
			"must be more than 0s with onRestart: wait, it says how long to wait")
	}
	if is.OnRestart == settings.OnRestartMove && is.RestartGrace > 0 && !n.Get("onRestart").IsBad() {
		l.Refuse(n.Get("restartGrace"),
			"0s or left out with onRestart: move; with onRestart: wait it says how long to wait")
	}
}

func (l settingsReader) server(n *decode.Node, is *settings.Server) {
	l.tls(n.Get("tls"), is.TLS)
	l.advertise(n.Get("advertise"), is)
	for i, host := range is.Hosts {
		is.Hosts[i] = strings.ToLower(host)
	}
	if is.TLS.CAFile != "" && !is.TLS.Enabled() {
		l.AddAt(n.At("tls", "caFile").Place, "server.tls.caFile",
			"needs certFile and keyFile: replicas trust each other by it when they serve TLS")
	}
}

func (l settingsReader) admin(n *decode.Node, is *settings.Admin) {
	l.tls(n.Get("tls"), is.TLS)
	listen := n.Get("listen")
	if listen != nil && !listen.Bad && is.TokensFile == "" && !settings.OnLoopback(is.Listen) {
		l.AddAt(listen.Place, "admin.tokensFile",
			"is required, since admin.listen is %s and not on loopback: name a file with lines \"NAME TOKEN "+
				"[read|operate|admin]\"",
			listen.Quoted())
	}
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

// advertise is where others reach the server. It is what is written, with the port of listen when it has none; else the
// host of listen, $(POD_IP) or the machine's address.
func (l settingsReader) advertise(n *decode.Node, is *settings.Server) {
	host, port, err := net.SplitHostPort(is.Listen)
	if err != nil {
		host, port = "", "0"
	}
	withPort := net.JoinHostPort(strings.Trim(is.Advertise, "[]"), port)
	switch {
	case is.Advertise == "":
		if addr, err := netip.ParseAddr(host); host == "" || err == nil && addr.IsUnspecified() {
			podIP, _ := l.opts.Env("POD_IP")
			host = cmp.Or(podIP, machineAddress())
		}
		is.Advertise = net.JoinHostPort(host, port)
	case settings.IsHostPort(is.Advertise):
	case settings.IsAddress(withPort):
		is.Advertise = withPort
	default:
		l.Refuse(n, "HOST:PORT or HOST")
	}
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

func (l settingsReader) tls(n *decode.Node, is settings.TLS) {
	cert, key := n.Get("certFile"), n.Get("keyFile")
	switch {
	case is.CertFile != "" && is.KeyFile == "" && (key == nil || !key.Bad):
		l.AddAt(cert.Place, decode.Under(n.Field(), "keyFile"), "is required with certFile")
	case is.KeyFile != "" && is.CertFile == "" && (cert == nil || !cert.Bad):
		l.AddAt(key.Place, decode.Under(n.Field(), "certFile"), "is required with keyFile")
	}
}

// store reads where locks are kept. Its errors never quote the URI: it may hold a password, also where it is wrong.
func (l settingsReader) store(root *decode.Node, is *settings.Store) {
	n, database := root.At("store", "uri"), root.At("store", "database")
	named := is.Database
	if database == nil {
		named = "" // the default is the URI's
	}
	*is = settings.Store{}
	uri, ok := l.Value(n)
	if !ok {
		at := root
		if section := root.Get("store"); section != nil {
			at = section
		}
		if n == nil && !at.Bad && !l.partial {
			l.AddAt(at.Place, "store.uri", "is required: %s", driver.Forms())
		}
		return
	}
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
	*is = settings.Store{
		URI: uri, Renew: Renewal(n.Raw, l.opts.Env), Database: c.Database, DatabaseHidden: named == "" && n.Outside(),
		Withheld: SecretVariables(n.Raw, l.opts.Env), Written: n.Raw,
	}
}

// pod wants both container and dir or neither; the UID is $(POD_UID) where none is written.
func (l settingsReader) pod(n *decode.Node, is *settings.Pod) {
	uid, container, dir := n.Get("uid"), n.Get("container"), n.Get("dir")
	hasContainer, hasDir := is.Container != "" || container.IsBad(), is.Dir != "" || dir.IsBad()
	switch {
	case hasContainer && !hasDir:
		l.AddAt(container.Place, "pod.dir",
			"is required with container: a directory that outlives the container and no more, such as an emptyDir")
	case hasDir && !hasContainer:
		l.AddAt(dir.Place, "pod.container", "is required with dir: the container's name in its pod")
	case !hasContainer && is.UID != "":
		l.AddAt(uid.Place, "pod", "needs container and dir with uid: all three, or none")
	case hasContainer && is.UID == "":
		is.UID, _ = l.opts.Env("POD_UID")
	}
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

// maxSocket is how long the path of a socket may be, in bytes. The kernel takes 107, and a process number is added to
// it while it is made.
const maxSocket = 90

func (l settingsReader) app(n *decode.Node, is *settings.App) {
	listen, file, command, address := n.Get("listen"), n.Get("tokenFile"), n.Get("command"), n.Get("address")
	path, socket := strings.CutPrefix(is.Listen, "unix:")
	switch {
	case is.Listen == "":
		if len(is.Command) > 0 && !listen.IsBad() {
			l.AddAt(command.Place, "app.listen", "is required with command: unix:/PATH, or HOST:PORT on loopback")
		}
	case socket && (!filepath.IsAbs(path) || len(path) > maxSocket):
		l.Refuse(listen, "unix: and an absolute path of at most 90 bytes")
	case !socket && (!settings.IsAddress(is.Listen) || !settings.OnLoopback(is.Listen) ||
		strings.HasSuffix(is.Listen, ":0")):
		l.Refuse(listen, "unix:/PATH, or HOST:PORT on loopback with a port that is not 0")
	case !socket && is.TokenFile == "" && len(is.Command) == 0 && !file.IsBad():
		l.AddAt(listen.Place, "app.tokenFile",
			"is required, since app.listen is %s and any user of the machine reaches it: name a file with a token",
			listen.Quoted())
	}
	if is.TokenFile != "" && len(is.Command) > 0 {
		l.AddAt(file.Place, "app.tokenFile", "goes without command: the command gets a token of its own at each start")
	}
	if len(is.Command) > 0 && is.Command[0] == "" && !command.List()[0].IsBad() {
		l.AddAt(command.Place, "app.command", "begins with an empty text, must begin with a program")
	}
	if is.Address != "" && !settings.IsHostPort(is.Address) {
		l.Refuse(address, "HOST:PORT")
	}
}
