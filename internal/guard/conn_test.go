package guard

import (
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// connPair gives a connection and the bare other end.
func connPair(t *testing.T) (*conn, *net.UnixConn) {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	c, err := connFromFile(os.NewFile(uintptr(pair[0]), "here"))
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(pair[1]), "there")
	other, err := net.FileConn(f)
	if err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	t.Cleanup(func() {
		c.shut(errClosed)
		<-c.writing
		_ = other.Close()
	})
	sock, ok := other.(*net.UnixConn)
	if !ok {
		t.Fatalf("%T", other)
	}
	return c, sock
}

func TestConnKeepsOrderAndFiles(t *testing.T) {
	c, sock := connPair(t)
	const n = 20
	for i := range n {
		m := message{Kind: kindStart, ID: uint64(i), Start: &start{Args: bytesOf([]string{strings.Repeat("\xff", i*10000)})}}
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			m.files = []*os.File{w}
		} else {
			_ = w.Close()
		}
		if err := c.send(message{Kind: kindClosed}); err != nil {
			t.Fatal(err)
		}
		if err := c.send(m); err != nil {
			t.Fatal(err)
		}
		defer func() { // at the end, every file that came was written to
			got, err := io.ReadAll(r)
			_ = r.Close()
			want := ""
			if i%2 == 0 {
				want = fmt.Sprint(i)
			}
			if string(got) != want || err != nil {
				t.Errorf("pipe %d: %q, %v", i, got, err)
			}
		}()
	}
	in := reader{sock: sock}
	for i := range n {
		if m, err := in.next(); err != nil || m.Kind != kindClosed {
			t.Fatalf("record %d: %v, %v", i, m.Kind, err)
		}
		m, err := in.next()
		if err != nil {
			t.Fatal(err)
		}
		if m.ID != uint64(i) || len(m.Start.Args[0]) != i*10000 || len(m.files) != (i+1)%2 {
			t.Fatalf("record %d: id %d, %d bytes, %d files", i, m.ID, len(m.Start.Args[0]), len(m.files))
		}
		for _, f := range m.files {
			if _, err := fmt.Fprint(f, i); err != nil {
				t.Error(err)
			}
			_ = f.Close()
		}
	}
}

// fill makes the socket so full that nothing more is written until somebody reads.
func fill(t *testing.T, c *conn) {
	t.Helper()
	if err := c.send(message{Kind: kindStart, Start: &start{Args: [][]byte{make([]byte, 4<<20)}}}); err != nil {
		t.Fatal(err)
	}
	for taken := false; !taken; time.Sleep(time.Millisecond) {
		c.mu.Lock()
		taken = len(c.queue) == 0
		c.mu.Unlock()
	}
}

func TestConnSendsOnlyTheNewestDeadline(t *testing.T) {
	c, sock := connPair(t)
	fill(t, c)
	for i := range 1000 {
		d := DeadlinesFrom(instant(0, 0), 0, 0)
		d.Gone.Mono += 1 + time.Duration(i)
		for _, session := range []string{"a", "b"} {
			if err := c.send(message{Kind: kindDeadline, Session: session, Deadlines: &d}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := c.send(message{Kind: kindBye}); err != nil {
		t.Fatal(err)
	}
	in := reader{sock: sock}
	if _, err := in.next(); err != nil {
		t.Fatal(err)
	}
	for _, session := range []string{"a", "b"} {
		m, err := in.next()
		if err != nil {
			t.Fatal(err)
		}
		if m.Session != session || m.Deadlines.Gone.Mono != 1+time.Duration(999) {
			t.Errorf("session %s: deadline %v", m.Session, m.Deadlines.Gone.Mono)
		}
	}
	if m, err := in.next(); err != nil || m.Kind != kindBye {
		t.Errorf("then %v, %v", m.Kind, err)
	}
}

func TestConnNeverBlocks(t *testing.T) {
	c, _ := connPair(t)
	fill(t, c)
	var err error
	for range maxQueue + 1 {
		if err = c.send(message{Kind: kindGone}); err != nil {
			break
		}
	}
	if err == nil {
		t.Error("the queue has no end")
	}
}

func TestConnRefusesNonsense(t *testing.T) {
	for _, text := range []string{"\xff\xff\xff\xff\x00\x00\x00\x00", "\x02\x00\x00\x00\x00\x00\x00\x00x!", "\x02\x00\x00\x00\x02\x00\x00\x00{}"} {
		c, sock := connPair(t)
		if _, err := sock.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := c.read(func(m message) { t.Errorf("%q was taken as %v", text, m) }); err == nil {
			t.Errorf("%q was accepted", text)
		}
	}
}

func TestConnReadsWhatWasSaidBeforeTheEnd(t *testing.T) {
	c, sock := connPair(t)
	if _, err := sock.Write([]byte("\x10\x00\x00\x00\x00\x00\x00\x00{\"kind\":  \"bye\"}")); err != nil {
		t.Fatal(err)
	}
	_ = sock.Close()
	for c.send(message{Kind: kindPing}) == nil { // until the writer has found out
		if err := <-c.sendWait(message{Kind: kindGone}); err != nil {
			break
		}
	}
	var got []kind
	_ = c.read(func(m message) { got = append(got, m.Kind) })
	if len(got) != 1 || got[0] != kindBye {
		t.Errorf("read %v", got)
	}
}
