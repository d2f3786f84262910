//go:build unix

package testmongo

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// dockerRuns says whether a Docker engine answers, not just whether its client is installed.
func dockerRuns(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return exec.CommandContext(ctx, "docker", "info").Run() == nil
}

// dockerMachine starts one container for all nodes of a set. So they reach each other as HOST:PORT, just as the tests
// do through the published ports. The container's first process waits for the end of its standard input, which this
// process holds: when this process dies, the container ends. dir is for the data, inside.
func dockerMachine(ctx context.Context, dir, host string, ports []int) (*machine, error) {
	image := os.Getenv(EnvImage)
	if image == "" {
		image = "mongo:7"
	}
	//nolint:gosec // the developer's own choice
	if out, err := exec.CommandContext(ctx, "docker", "pull", "--quiet", image).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("docker pull %s: %w: %s", image, err, bytes.TrimSpace(out))
	}
	name := "shardctl-test-" + rand.Text()
	args := []string{"run", "--rm", "--interactive", "--init", "--name", name}
	for _, p := range ports {
		args = append(args, "--publish", fmt.Sprintf("%s:%d:%d", host, p, p))
	}
	args = append(args, "--entrypoint", "sh", image, "-c", "echo up; cat >/dev/null")

	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	cmd := exec.CommandContext(life, "docker", args...) //nolint:gosec // as above
	stdin, err := cmd.StdinPipe()
	if err != nil {
		cancel()
		return nil, fmt.Errorf("docker run: %w", err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		cancel()
		return nil, fmt.Errorf("docker run: %w", err)
	}
	if err := cmd.Start(); err != nil {
		cancel()
		return nil, fmt.Errorf("docker run: %w", err)
	}
	closeAll := func() {
		_ = stdin.Close() // the container sees it and ends
		_ = cmd.Wait()
		cancel()
	}
	if _, err := io.ReadFull(stdout, make([]byte, len("up"))); err != nil {
		closeAll()
		return nil, fmt.Errorf("docker run %s: the container did not start: %w", image, err)
	}
	return &machine{
		dir: dir, bind: "0.0.0.0", close: closeAll,
		command: func(ctx context.Context, n *Node, args ...string) *exec.Cmd {
			steps := []string{`mkdir -p "$0"`}
			for file, content := range n.files() {
				steps = append(steps, fmt.Sprintf("(umask 077 && echo %s | base64 -d >%s)",
					base64.StdEncoding.EncodeToString(content), file))
			}
			steps = append(steps, `exec mongod "$@"`)
			start := []string{"exec", name, "sh", "-c", strings.Join(steps, " && "), n.dataDir()}
			return exec.CommandContext(ctx, "docker", append(start, args...)...) //nolint:gosec // as above
		},
		signal: func(ctx context.Context, n *Node, sig syscall.Signal) error {
			kill := fmt.Sprintf("kill -%s $(cat %s)", strconv.Itoa(int(sig)), path.Join(n.dataDir(), "pid"))
			return exec.CommandContext(ctx, "docker", "exec", name, "sh", "-c", kill).Run() //nolint:gosec // as above
		},
	}, nil
}
