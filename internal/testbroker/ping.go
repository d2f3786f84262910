//go:build unix

package testbroker

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
)

// dial connects until ctx ends; the connection's deadline is that of ctx.
func dial(ctx context.Context, addr string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	if end, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(end)
	}
	return conn, nil
}

// ask connects, sends, and fills reply.
func ask(ctx context.Context, addr string, question, reply []byte) error {
	conn, err := dial(ctx, addr)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write(question); err != nil {
		return err
	}
	_, err = io.ReadFull(conn, reply)
	return err
}

// askLine connects, sends, and returns the first line.
func askLine(ctx context.Context, addr, question string) (string, error) {
	conn, err := dial(ctx, addr)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	if _, err := fmt.Fprint(conn, question); err != nil {
		return "", err
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	return strings.TrimSpace(line), err
}
