//go:build unix

package testservers

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/shardctl/shardctl/internal/testprocess"
)

// KindEtcd is etcd. Its module is pinned beside this package and built once; a test's configuration lines are those of
// etcd's configuration file, such as "quota-backend-bytes: 16777216".
const KindEtcd Kind = "etcd"

func init() {
	register(KindEtcd, definition{
		software: func() testprocess.Software { return &etcd{} },
		database: func(_ context.Context, s *testprocess.Server) (string, error) {
			return "etcd://" + s.Addr() + "/" + Name(), nil
		},
	})
}

// Ports of an etcd.
const (
	etcdClients = iota
	etcdPeers
	etcdPorts
)

// etcd is one member.
type etcd struct {
	server  string
	name    string // empty: the only one
	cluster string // NAME=URL of each member, joined by commas
	tls     bool   // clients use TLS, as the configuration's lines say
}

func (e *etcd) Ports() int { return etcdPorts }

func (e *etcd) Provide(ctx context.Context) (err error) {
	e.server, err = testprocess.Module{
		Kind: string(KindEtcd), Parent: "github.com/shardctl/shardctl/internal/testservers", Dir: "etcdserver",
		Package: "go.etcd.io/etcd/server/v3",
	}.Program(ctx)
	return err
}

func (e *etcd) Prepare(_ context.Context, s *testprocess.Site) error {
	name, scheme := e.name, "http://"
	peers := "http://" + s.Addr(etcdPeers)
	cluster := e.cluster
	if name == "" {
		name, cluster = "single", "single="+peers
	}
	for _, line := range s.Extra() {
		if strings.HasPrefix(line, "client-transport-security:") {
			e.tls, scheme = true, "https://"
		}
	}
	clients := scheme + s.Addr(etcdClients)
	return s.Write("etcd.yaml",
		"name: "+name,
		`data-dir: "`+s.Path("data")+`"`,
		`listen-client-urls: "`+clients+`"`,
		`advertise-client-urls: "`+clients+`"`,
		`listen-peer-urls: "`+peers+`"`,
		`initial-advertise-peer-urls: "`+peers+`"`,
		`initial-cluster: "`+cluster+`"`,
		"initial-cluster-state: new",
		"log-level: warn",
	)
}

func (e *etcd) Commands(s *testprocess.Site) []testprocess.Command {
	return []testprocess.Command{{Args: []string{e.server, "--config-file=" + s.Path("etcd.yaml")}}}
}

// Ready waits until reads are linearizable, for which a majority is needed. Where clients use TLS it waits until the
// port is open, which a single member opens last.
func (e *etcd) Ready(ctx context.Context, s *testprocess.Site) error {
	if e.tls {
		conn, err := testprocess.Dial(ctx, s.Addr(etcdClients))
		if err == nil {
			err = conn.Close()
		}
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.Addr(etcdClients)+"/health", nil)
	if err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	// An alarm, as one of a full database, makes it unhealthy; it serves clients all the same.
	if text, err := io.ReadAll(response.Body); response.StatusCode != http.StatusOK &&
		!strings.Contains(string(text), "ALARM") {
		return fmt.Errorf("etcd answers %s: %.200s (%w)", response.Status, text, err)
	}
	return nil
}
