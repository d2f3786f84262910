package web

import (
	"context"
	"fmt"
	"net"
	"strconv"
)

// FreePorts returns n different TCP ports of a host of this machine on which no process listens. The kernel chooses them.
// Another process may take one before the caller does.
func FreePorts(ctx context.Context, host string, n int) ([]int, error) {
	ports := make([]int, 0, n)
	for range n {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(host, "0"))
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		defer func() { _ = l.Close() }() // all stay open till the end, so that no port comes twice
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// FreeAddresses returns n addresses, HOST:PORT, on the loopback interface with ports as [FreePorts] finds them.
func FreeAddresses(ctx context.Context, n int) ([]string, error) {
	const host = "127.0.0.1"
	ports, err := FreePorts(ctx, host, n)
	if err != nil {
		return nil, err
	}
	addrs := make([]string, n)
	for i, port := range ports {
		addrs[i] = net.JoinHostPort(host, strconv.Itoa(port))
	}
	return addrs, nil
}
