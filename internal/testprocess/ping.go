//go:build unix

package testprocess

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
)

// Dial connects until ctx ends; the connection's deadline is that of ctx.
func Dial(ctx context.Context, addr string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	if end, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(end)
	}
	return conn, nil
}

// Ask connects, sends, and fills reply.
func Ask(ctx context.Context, addr string, question, reply []byte) error {
	conn, err := Dial(ctx, addr)
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

// AskLine connects, sends, and returns the first line.
func AskLine(ctx context.Context, addr, question string) (string, error) {
	conn, err := Dial(ctx, addr)
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
