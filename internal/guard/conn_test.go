package guard

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"reflect"
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
		b := &start{
			ID: uint64(i + 1), Key: "g/a", Session: "s", Path: []byte("/x"),
			Args: bytesOf([]string{strings.Repeat("\xff", i*10000)}),
		}
		var files []*os.File
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			b.Files, files = passedStdout, []*os.File{w}
		} else {
			_ = w.Close()
		}
		if err := c.send(&closed{"s"}); err != nil {
			t.Fatal(err)
		}
		if err := c.send(b, files...); err != nil {
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
	in := reader{sock: sock, accepted: fromWorker}
	for i := range n {
		if m, err := in.next(); err != nil || m.body.kind() != "closed" {
			t.Fatalf("message %d: %v, %v", i, m.body, err)
		}
		m, err := in.next()
		if err != nil {
			t.Fatal(err)
		}
		b, ok := m.body.(*start)
		if !ok || b.ID != uint64(i+1) || len(b.Args[0]) != i*10000 || len(m.files) != (i+1)%2 {
			t.Fatalf("message %d: %+v with %d files", i, m.body, len(m.files))
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
	large := &start{ID: 1, Key: "g/a", Session: "s", Path: []byte("/x"), Args: [][]byte{make([]byte, 4<<20)}}
	if err := c.send(large); err != nil {
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
			if err := c.send(&renewed{session, d}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := c.send(&bye{}); err != nil {
		t.Fatal(err)
	}
	in := reader{sock: sock, accepted: fromWorker}
	if _, err := in.next(); err != nil {
		t.Fatal(err)
	}
	for _, session := range []string{"a", "b"} {
		m, err := in.next()
		if err != nil {
			t.Fatal(err)
		}
		if b, ok := m.body.(*renewed); !ok || b.Session != session || b.Deadlines.Gone.Mono != 1+time.Duration(999) {
			t.Errorf("session %s: %+v", session, m.body)
		}
	}
	if m, err := in.next(); err != nil || m.body.kind() != "bye" {
		t.Errorf("then %v, %v", m.body, err)
	}
}

func TestConnNeverBlocks(t *testing.T) {
	c, _ := connPair(t)
	fill(t, c)
	var err error
	for range maxQueue + 1 {
		if err = c.send(&gone{1}); err != nil {
			break
		}
	}
	if err == nil {
		t.Error("the queue has no end")
	}
}

// frame is a frame as it travels, with any text.
func frame(text string, files int) string {
	size := len(text)
	return string([]byte{byte(size), byte(size >> 8), byte(size >> 16), byte(size >> 24), byte(files), 0, 0, 0}) + text
}

func TestConnRefusesWhatIsMalformed(t *testing.T) {
	for what, text := range map[string]string{
		"a size beyond all limits":  "\xff\xff\xff\xff\x00\x00\x00\x00",
		"no JSON":                   frame("x!", 0),
		"no envelope":               frame("[]", 0),
		"files that did not come":   frame(`{"version":2,"kind":"bye","body":{}}`, 2),
		"another version":           frame(`{"version":1,"kind":"bye","body":{}}`, 0),
		"no version":                frame(`{"kind":"bye","body":{}}`, 0),
		"an unknown kind":           frame(`{"version":2,"kind":"by","body":{}}`, 0),
		"what the other side sends": frame(`{"version":2,"kind":"ping","body":{}}`, 0),
		"an unknown field":          frame(`{"version":2,"kind":"bye","body":{"x":1}}`, 0),
		"no body":                   frame(`{"version":2,"kind":"bye"}`, 0),
		"a field of another type":   frame(`{"version":2,"kind":"opening","body":{"session":1}}`, 0),
		"a session without name":    frame(`{"version":2,"kind":"opening","body":{"session":""}}`, 0),
		"a lease of no duration":    frame(`{"version":2,"kind":"hello","body":{"lease":0,"limit":1}}`, 0),
		"signal 0":                  frame(`{"version":2,"kind":"stop","body":{"id":1,"signal":0,"grace":1}}`, 0),
		"a place without its file":  frame(`{"version":2,"kind":"place","body":{}}`, 0),
	} {
		c, sock := connPair(t)
		if _, err := sock.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		err := c.read(fromWorker, func(m message) { t.Errorf("%s was taken as %v", what, m.body) })
		if !errors.Is(err, errMalformed) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestEveryBodyTravels(t *testing.T) {
	until := instant(1, 2)
	for _, c := range []struct {
		accepted map[kind]func() body
		bodies   []body
	}{
		{fromWorker, []body{
			&hello{time.Second, time.Minute},
			&start{
				ID: 1, Key: "g/a", Session: "s", Token: 2, Path: []byte("/x"), Args: [][]byte{{0xff}},
				Env: [][]byte{{'A'}},
				Dir: []byte("/"),
			},
			&stop{1, 15, time.Second}, &renewed{"s", DeadlinesFrom(until, time.Second, 1)}, &opening{"s"},
			&closed{"s"}, &remote{"s", "g/a", &until}, &remote{Session: "s", Key: "g/a"},
			&inside{Session: "s", Key: "g/a"}, &inside{"s", "g/a", true}, &place{}, &pass{1, 15}, &bye{},
		}},
		{fromGuard, []body{
			&started{1, 2, "no", 3}, &exited{1, -1, 9}, &gone{1}, &ordered{Reload},
			&Alarm{Session: "s", Key: "g/a", Token: 1, PIDs: []int{1}, PastX: true}, &signalled{15}, &suspended{},
			&ping{},
		}},
	} {
		sent := map[kind]bool{}
		for _, b := range c.bodies {
			sent[b.kind()] = true
			frame, err := encode(b, 0)
			if err != nil {
				t.Fatal(err)
			}
			text := frame[headerSize:]
			if got, err := decode(text, c.accepted); err != nil || !reflect.DeepEqual(got, b) {
				t.Errorf("%s became %+v, %v", text, got, err)
			}
		}
		if len(sent) != len(c.accepted) {
			t.Errorf("%d kinds of %d tried", len(sent), len(c.accepted))
		}
	}
}

// What cannot be put in a frame ends nothing but itself.
func TestConnRefusesWhatCannotBeSent(t *testing.T) {
	c, sock := connPair(t)
	large := &start{ID: 1, Key: "g/a", Session: "s", Path: []byte("/x"), Args: [][]byte{make([]byte, maxFrame)}}
	if err := c.send(large); !errors.Is(err, errUnsendable) {
		t.Errorf("send: %v", err)
	}
	if err := <-c.sendWait(large); !errors.Is(err, errUnsendable) {
		t.Errorf("sendWait: %v", err)
	}
	if err := c.send(&bye{}); err != nil {
		t.Fatal(err)
	}
	in := reader{sock: sock, accepted: fromWorker}
	if m, err := in.next(); err != nil || m.body.kind() != "bye" {
		t.Errorf("then %v, %v", m.body, err)
	}
}

// Whatever cannot be written ends the connection at both ends: one that only reads would take pings for a guard.
func TestConnEndsWithAWriteThatFails(t *testing.T) {
	c, sock := connPair(t)
	closed, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	if err := <-c.sendWait(&place{}, closed); err == nil {
		t.Fatal("a file that is closed was sent")
	}
	<-c.down
	in := reader{sock: sock, accepted: fromWorker}
	if _, err := in.next(); !errors.Is(err, io.EOF) {
		t.Errorf("the other end reads %v", err)
	}
}

func TestConnReadsWhatWasSaidBeforeTheEnd(t *testing.T) {
	c, sock := connPair(t)
	if _, err := sock.Write([]byte(frame(`{"version":2,"kind":"bye","body":{}}`, 0))); err != nil {
		t.Fatal(err)
	}
	_ = sock.Close()
	for c.send(&ping{}) == nil { // until the writer has found out
		if err := <-c.sendWait(&gone{1}); err != nil {
			break
		}
	}
	var got []kind
	_ = c.read(fromWorker, func(m message) { got = append(got, m.body.kind()) })
	if len(got) != 1 || got[0] != "bye" {
		t.Errorf("read %v", got)
	}
}
