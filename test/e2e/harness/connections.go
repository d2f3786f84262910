//go:build linux

package harness

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Connections counts the TCP connections that a server on this machine has with its clients. Those that the client has
// closed do not count.
type Connections struct {
	port string // as in /proc/net/tcp
	stop chan struct{}
	wait sync.WaitGroup

	mu        sync.Mutex
	now, most int
	failure   error
}

// CountConnections counts at the server that listens at addr, HOST:PORT, every few milliseconds until Close.
func CountConnections(addr string) (*Connections, error) {
	_, text, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("count connections: %w", err)
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("count connections: port: %w", err)
	}
	c := &Connections{port: fmt.Sprintf(":%04X", port), stop: make(chan struct{})}
	if c.look(); c.failure != nil {
		return nil, fmt.Errorf("count connections: %w", c.failure)
	}
	c.wait.Go(func() {
		for c.look() {
			select {
			case <-time.After(5 * time.Millisecond):
			case <-c.stop:
				return
			}
		}
	})
	return c, nil
}

// look counts once. It is false when that cannot be done.
func (c *Connections) look() bool {
	count := 0
	for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		table, err := os.ReadFile(file)
		if err != nil && !os.IsNotExist(err) { // without IPv6 there is one table
			c.mu.Lock()
			defer c.mu.Unlock()
			c.failure = err
			return false
		}
		for row := range strings.Lines(string(table)) {
			const established = "01"
			field := strings.Fields(row) // number, local address, remote address, state, …
			if len(field) > 3 && strings.HasSuffix(field[1], c.port) && field[3] == established {
				count++
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now, c.most = count, max(c.most, count)
	return true
}

// Count is how many there are now, and how many there were at most.
func (c *Connections) Count() (now, most int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now, c.most, c.failure
}

// Close ends the counting.
func (c *Connections) Close() {
	close(c.stop)
	c.wait.Wait()
}
