//go:build unix

package testprocess

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
	"syscall"
)

// Loopback is where servers listen, unless [Options] say otherwise.
const Loopback = "127.0.0.1"

// Site is where one server lives: it stays the same over all its processes.
type Site struct {
	Dir   string // absolute, with everything it writes
	Host  string // the address that it listens on
	Ports []int

	extra   []string            // lines for its configuration, after its kind's
	account *syscall.Credential // whom it runs as; nil: who runs this process
}

// Addr is HOST:PORT of the i-th port.
func (s *Site) Addr(i int) string { return net.JoinHostPort(s.Host, strconv.Itoa(s.Ports[i])) }

// Path is that of a file or directory of the server.
func (s *Site) Path(name string) string { return filepath.Join(s.Dir, name) }

// Extra are the lines of configuration of who asked for the server.
func (s *Site) Extra() []string { return s.extra }

// Write writes a configuration: the kind's lines, then those of who asked for the server.
func (s *Site) Write(name string, lines ...string) error {
	return s.WriteFile(name, []byte(strings.Join(slices.Concat(lines, s.extra), "\n")+"\n"))
}

// WriteFile writes a file as it is, which the server alone may read.
func (s *Site) WriteFile(name string, content []byte) error {
	if err := os.WriteFile(s.Path(name), content, 0o600); err != nil {
		return fmt.Errorf("configuration of the server: %w", err)
	}
	return s.own(s.Path(name))
}

// Output is all that the server's processes have printed, since it was opened first. It is empty before that.
func (s *Site) Output() []byte {
	text, err := os.ReadFile(s.Path(logName))
	if err != nil {
		return nil
	}
	return text
}

// Ports of servers lie below those that the kernel gives to clients. Otherwise a client that dials while the server
// is down may be given the server's own port, and the server could not come back.
const lowestPort, highestPort = 10_000, 32_000

// FreePorts are n ports that no one listens on. They are for servers that have to know of each other before they start:
// see [Options].
func FreePorts(ctx context.Context, n int) ([]int, error) { return freePorts(ctx, Loopback, n) }

func freePorts(ctx context.Context, host string, n int) ([]int, error) {
	ports := make([]int, 0, n)
	for range 1000 {
		if len(ports) == n {
			return ports, nil
		}
		port := lowestPort + rand.IntN(highestPort-lowestPort) //nolint:gosec // no secret
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err != nil {
			continue
		}
		defer func() { _ = l.Close() }() // all stay open until the end, so that no port comes twice
		ports = append(ports, port)
	}
	return nil, fmt.Errorf("find %d free ports from %d to %d on %s", n, lowestPort, highestPort, host)
}
