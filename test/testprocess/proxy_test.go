//go:build unix

package testprocess_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/shardctl/shardctl/test/suites"
	"github.com/shardctl/shardctl/test/testprocess"
)

// echo is a server that sends back what it gets.
func echo(t *testing.T) string {
	t.Helper()
	suites.Need(t, suites.Processes, "real connections")
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	check(t, "listen", err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(conn, conn)
				_ = conn.Close()
			}()
		}
	}()
	return l.Addr().String()
}

// say writes a line and reads one, within a limit.
func say(conn net.Conn, line string, limit time.Duration) (string, error) {
	_ = conn.SetDeadline(time.Now().Add(limit))
	if _, err := conn.Write([]byte(line)); err != nil {
		return "", err
	}
	return bufio.NewReader(conn).ReadString('\n')
}

func connect(t *testing.T, addr string) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
	check(t, "connect", err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func TestLinkBreaksAndBlocks(t *testing.T) {
	const long = 20 * time.Second
	link := testprocess.Link(t, echo(t))
	conn := connect(t, link.Addr)
	if got, err := say(conn, "1\n", long); err != nil || got != "1\n" {
		t.Fatalf("through an open link came %q, %v", got, err)
	}
	link.Block()
	if got, err := say(conn, "2\n", 200*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("through a blocked link came %q, %v", got, err)
	}
	late := connect(t, link.Addr)
	if got, err := say(late, "3\n", 200*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("through a blocked link came %q, %v", got, err)
	}
	link.Unblock()
	if got, err := say(late, "4\n", long); err != nil || got != "3\n" {
		t.Errorf("what waited is %q, %v", got, err)
	}
	link.Cut()
	if got, err := say(conn, "5\n", long); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		if got != "2\n" { // it may have come before the cut
			t.Errorf("through a connection that was cut came %q, %v", got, err)
		}
	}
	if _, err := say(conn, "6\n", long); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a connection that was cut lives: %v", err)
	}
	if got, err := say(connect(t, link.Addr), "7\n", long); err != nil || got != "7\n" {
		t.Errorf("a connection after the cut: %q, %v", got, err)
	}
}

// What a client sends waits while it is looked at, and other connections go on.
func TestLinkShowsWhatIsSent(t *testing.T) {
	const long = 20 * time.Second
	link := testprocess.Link(t, echo(t))
	held, release := make(chan struct{}), make(chan struct{})
	link.Look(func(sent []byte) {
		if string(sent) == "held\n" {
			close(held)
			<-release
		}
	})
	conn := connect(t, link.Addr)
	got := make(chan string, 1)
	go func() {
		text, _ := say(conn, "held\n", long) // an error has no text
		got <- text
	}()
	<-held
	if text, err := say(connect(t, link.Addr), "other\n", long); err != nil || text != "other\n" {
		t.Errorf("on another connection came %q, %v", text, err)
	}
	select {
	case text := <-got:
		t.Errorf("%q came before it was let go", text)
	default:
	}
	close(release)
	if text := <-got; text != "held\n" {
		t.Errorf("what waited is %q", text)
	}
}

// An address that leads elsewhere takes new connections there, and keeps those that are open.
func TestLinkLeadsElsewhere(t *testing.T) {
	const long = 20 * time.Second
	link := testprocess.Link(t, "127.0.0.1:1")
	link.Lead(echo(t))
	before := connect(t, link.Addr)
	if got, err := say(before, "1\n", long); err != nil || got != "1\n" {
		t.Fatalf("where it leads now: %q, %v", got, err)
	}
	link.Lead("127.0.0.1:1")
	if got, err := say(before, "2\n", long); err != nil || got != "2\n" {
		t.Errorf("a connection that was open: %q, %v", got, err)
	}
	if n := link.Clients(); n != 1 {
		t.Errorf("%d clients, want 1", n)
	}
	if got, err := say(connect(t, link.Addr), "3\n", long); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a new one: %q, %v; want its end", got, err)
	}
}

func TestLinkToAServerThatIsDownEndsConnections(t *testing.T) {
	suites.Need(t, suites.Processes, "real connections")
	link := testprocess.Link(t, "127.0.0.1:1")
	if _, err := say(connect(t, link.Addr), "1\n", 20*time.Second); err == nil ||
		errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%v, want the end of the connection", err)
	}
}
