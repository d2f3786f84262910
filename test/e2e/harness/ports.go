//go:build linux

package harness

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
)

// Ports come from below the range that the kernel gives to outgoing connections. So none of those takes one between the
// moment it is found free and the moment a replica listens on it.
const (
	firstPort = 20000
	lastPort  = 30000
)

var ports struct {
	sync.Mutex
	next int
}

// freeAddr returns a loopback address that is not listened on and that was not given out before.
func freeAddr(ctx context.Context) (string, error) {
	ports.Lock()
	defer ports.Unlock()
	if ports.next == 0 {
		ports.next = firstPort + os.Getpid()%97*100 // another test process begins elsewhere
	}
	var config net.ListenConfig
	for range lastPort - firstPort {
		addr := fmt.Sprintf("127.0.0.1:%d", ports.next)
		if ports.next++; ports.next == lastPort {
			ports.next = firstPort
		}
		if l, err := config.Listen(ctx, "tcp", addr); err == nil {
			return addr, l.Close()
		}
	}
	return "", errors.New("no free port on the loopback interface")
}
