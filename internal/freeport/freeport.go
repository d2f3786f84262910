// Package freeport finds TCP ports that no process listens on. Another process may take one before the caller does.
package freeport

import (
	"context"
	"fmt"
	"net"
	"strconv"
)

// Ports are n different ports of a host of this machine. The kernel chooses them.
func Ports(ctx context.Context, host string, n int) ([]int, error) {
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

// Loopback is n addresses, HOST:PORT, on the loopback interface.
func Loopback(ctx context.Context, n int) ([]string, error) {
	const host = "127.0.0.1"
	ports, err := Ports(ctx, host, n)
	if err != nil {
		return nil, err
	}
	addrs := make([]string, n)
	for i, port := range ports {
		addrs[i] = net.JoinHostPort(host, strconv.Itoa(port))
	}
	return addrs, nil
}
