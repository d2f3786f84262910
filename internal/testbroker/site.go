//go:build unix

package testbroker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// loopback is where all brokers listen.
const loopback = "127.0.0.1"

// site is where one broker lives: it stays the same over all its processes.
type site struct {
	dir   string // absolute, with everything it writes
	ports []int
	extra []string // lines for its configuration, after ours
}

// addr is HOST:PORT of the i-th port.
func (s *site) addr(i int) string { return net.JoinHostPort(loopback, strconv.Itoa(s.ports[i])) }

// path is that of a file or directory of the broker.
func (s *site) path(name string) string { return filepath.Join(s.dir, name) }

// write writes a configuration: ours, then the lines of who asked for the broker.
func (s *site) write(name string, lines ...string) error {
	text := strings.Join(slices.Concat(lines, s.extra), "\n") + "\n"
	if err := os.WriteFile(s.path(name), []byte(text), 0o600); err != nil {
		return fmt.Errorf("configuration of the broker: %w", err)
	}
	return nil
}

// Ports of brokers lie below those that the kernel gives to clients. Otherwise a client that dials while the broker
// is down may be given the broker's own port, and the broker could not come back.
const lowestPort, highestPort = 10_000, 32_000

// freePorts are n ports that nobody listens on.
func freePorts(ctx context.Context, n int) ([]int, error) {
	ports := make([]int, 0, n)
	for range 1000 {
		if len(ports) == n {
			return ports, nil
		}
		port := lowestPort + rand.IntN(highestPort-lowestPort) //nolint:gosec // no secret
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(loopback, strconv.Itoa(port)))
		if err != nil {
			continue
		}
		defer func() { _ = l.Close() }() // all stay open until the end, so that no port comes twice
		ports = append(ports, port)
	}
	return nil, fmt.Errorf("find %d free ports from %d to %d on %s", n, lowestPort, highestPort, loopback)
}
