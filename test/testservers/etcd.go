//go:build unix

package testservers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/clock"
	"github.com/shardctl/shardctl/test/testprocess"
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
		Kind: string(KindEtcd), Parent: "github.com/shardctl/shardctl/test/testservers", Dir: "etcdserver",
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

// EtcdCluster is three members, of which any two are a majority.
type EtcdCluster struct {
	Members []*Server
	tb      testing.TB
}

// StartEtcdCluster starts a cluster that ends with the test. Config lines are for all members.
func StartEtcdCluster(tb testing.TB, config ...string) *EtcdCluster {
	tb.Helper()
	all := testprocess.Fresh(tb, family, string(KindEtcd), func(ctx context.Context, dir string) (*servers, error) {
		return openEtcdCluster(ctx, dir, config)
	})
	return &EtcdCluster{Members: all.use(tb), tb: tb}
}

// openEtcdCluster starts the members at once: none is ready before two run.
func openEtcdCluster(ctx context.Context, dir string, config []string) (*servers, error) {
	const members = 3
	ports, err := testprocess.FreePorts(ctx, members*etcdPorts)
	if err != nil {
		return nil, err
	}
	part := slices.Collect(slices.Chunk(ports, etcdPorts))
	cluster := make([]string, members)
	for i, p := range part {
		cluster[i] = fmt.Sprintf("m%d=http://%s:%d", i, testprocess.Loopback, p[etcdPeers])
	}
	return openServers(members, func(i int) (*testprocess.Server, error) {
		name := fmt.Sprintf("m%d", i)
		software := &etcd{name: name, cluster: strings.Join(cluster, ",")}
		return testprocess.Open(ctx, string(KindEtcd), software, filepath.Join(dir, name),
			testprocess.Options{Ports: part[i], Config: config})
	})
}

// Database is the URI of an empty prefix, with all members.
func (c *EtcdCluster) Database() string {
	return "etcd://" + strings.Join(addrs(c.Members), ",") + "/" + Name()
}

// Leader is the member that leads, as it says itself over HTTP. It waits until there is one.
func (c *EtcdCluster) Leader(ctx context.Context) (*Server, error) {
	for {
		var errs []error
		for _, m := range c.Members {
			leads, err := etcdLeads(ctx, m.Addr)
			if leads {
				return m, nil
			}
			errs = append(errs, err)
		}
		if clock.Sleep(ctx, 20*time.Millisecond) != nil { // an election reports nothing
			return nil, fmt.Errorf("no member of etcd leads: %w", errors.Join(errs...))
		}
	}
}

// Compact has the cluster forget all revisions but the newest, as an operator does. It asks one member after the other,
// and is an error where none of them takes it.
func (c *EtcdCluster) Compact(ctx context.Context) error {
	var errs []error
	for _, m := range c.Members {
		status, err := etcdAsk(ctx, m.Addr, "maintenance/status", "{}")
		if err == nil {
			_, err = etcdAsk(ctx, m.Addr, "kv/compaction", `{"revision":"`+status.Header.Revision+`"}`)
		}
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return fmt.Errorf("compact etcd: %w", errors.Join(errs...))
}

// etcdLeads asks one member, which may be dead or frozen, whether it leads.
func etcdLeads(ctx context.Context, addr string) (bool, error) {
	status, err := etcdAsk(ctx, addr, "maintenance/status", "{}")
	return err == nil && status.Leader != "" && status.Leader == status.Header.Member, err
}

// etcdAnswer is what a member says of itself.
type etcdAnswer struct {
	Header struct {
		Member   string `json:"member_id"`
		Revision string `json:"revision"`
	} `json:"header"`
	Leader string `json:"leader"`
}

// etcdAsk sends one member a question by HTTP.
func etcdAsk(ctx context.Context, addr, method, question string) (answer etcdAnswer, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(
		ctx, http.MethodPost, "http://"+addr+"/v3/"+method, bytes.NewBufferString(question),
	)
	if err != nil {
		return answer, err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return answer, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return answer, fmt.Errorf("etcd answers %s to %s", response.Status, method)
	}
	return answer, json.NewDecoder(response.Body).Decode(&answer)
}
