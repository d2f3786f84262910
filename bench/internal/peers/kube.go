//go:build linux

package peers

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/shardctl/shardctl/test/testprocess"
	"github.com/shardctl/shardctl/test/toolcache"
)

// kubeVersion is what is built; one that is found may be another.
const kubeVersion = "v1.36.3"

// kubeServer is a kube-apiserver on an etcd. Who has the token may do everything.
type kubeServer struct {
	etcd, token string
	program     string
}

// Ports is one.
func (k *kubeServer) Ports() int { return 1 }

// Provide finds it by KUBE_APISERVER or on PATH, or compiles it, which takes ten minutes or more, and keeps it in the
// user's cache.
func (k *kubeServer) Provide(ctx context.Context) (err error) {
	if k.program = os.Getenv("KUBE_APISERVER"); k.program != "" {
		return nil
	}
	if k.program, err = exec.LookPath("kube-apiserver"); err == nil {
		return nil
	}
	k.program, err = toolcache.Program(ctx, filepath.Join("shardctl-bench", "kube-apiserver-"+kubeVersion), buildKube)
	return err
}

// Prepare writes the token, and a key to sign those of service accounts.
func (k *kubeServer) Prepare(_ context.Context, s *testprocess.Site) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	if err := s.WriteFile("sa.pem", pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})); err != nil {
		return err
	}
	return s.Write("tokens.csv", k.token+",bench,bench,system:masters")
}

// Commands is the server.
func (k *kubeServer) Commands(s *testprocess.Site) []testprocess.Command {
	return []testprocess.Command{{Args: []string{
		k.program, "--etcd-servers=http://" + k.etcd, "--bind-address=" + s.Host, "--advertise-address=" + s.Host,
		"--secure-port=" + strconv.Itoa(s.Ports[0]), "--cert-dir=" + s.Path("certs"),
		"--token-auth-file=" + s.Path("tokens.csv"), "--authorization-mode=AlwaysAllow",
		"--service-cluster-ip-range=10.0.0.0/24", "--service-account-issuer=https://bench",
		"--service-account-key-file=" + s.Path("sa.pem"), "--service-account-signing-key-file=" + s.Path("sa.pem"),
		"--disable-admission-plugins=ServiceAccount", "--v=0",
	}}}
}

// Ready waits for the namespace that leases are made in.
func (k *kubeServer) Ready(ctx context.Context, s *testprocess.Site) error {
	_, err := get(ctx, "https://"+s.Addr(0)+"/api/v1/namespaces/default", k.token)
	return err
}

var staging = regexp.MustCompile(`=> \./staging/src/(k8s\.io/[a-z-]+)`)

// buildKube compiles kube-apiserver. Its module replaces its parts by directories of its repository; they are
// published as modules too.
func buildKube(ctx context.Context, dir, target string) error {
	out, err := exec.CommandContext(ctx, "go", "mod", "download", "-json", "k8s.io/kubernetes@"+kubeVersion).Output()
	if err != nil {
		return fmt.Errorf("download k8s.io/kubernetes: %w", err)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(out, &module); err != nil {
		return fmt.Errorf("download k8s.io/kubernetes: %w", err)
	}
	mod, err := os.ReadFile(filepath.Join(module.Dir, "go.mod"))
	if err != nil {
		return err
	}
	sum, err := os.ReadFile(filepath.Join(module.Dir, "go.sum"))
	if err != nil {
		return err
	}
	mod = staging.ReplaceAll(mod, []byte("=> $1 v0."+strings.TrimPrefix(kubeVersion, "v1.")))
	mod = bytes.Replace(mod, []byte("module k8s.io/kubernetes"), []byte("module servers.local/kube"), 1)
	mod = append(mod, "\nrequire k8s.io/kubernetes "+kubeVersion+"\n"...)
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), mod, 0o600); err != nil { //nolint:gosec // in the cache
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "go.sum"), sum, 0o600); err != nil { //nolint:gosec // in the cache
		return err
	}
	const version = "-X k8s.io/component-base/version."
	minor, _, _ := strings.Cut(strings.TrimPrefix(kubeVersion, "v1."), ".")
	//nolint:gosec // fixed arguments
	cmd := exec.CommandContext(
		ctx, "go", "build", "-mod=mod", "-buildvcs=false", "-ldflags", "-s -w "+version+"gitVersion="+kubeVersion+" "+
			version+"gitMajor=1 "+version+"gitMinor="+minor, "-o", target, "k8s.io/kubernetes/cmd/kube-apiserver",
	)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build kube-apiserver: %w: %s", err, bytes.TrimSpace(out[max(0, len(out)-1024):]))
	}
	return nil
}
