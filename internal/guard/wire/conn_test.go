package wire

import (
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/shardctl/shardctl/pkg/elect"
)

// connPair gives both ends of a connection. The second reads nothing until read is called.
func connPair(t *testing.T) (here, there *Conn) {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]*Conn
	for i, fd := range pair {
		if ends[i], err = NewConn(os.NewFile(uintptr(fd), "end")); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			ends[i].Shut(ErrClosed)
			ends[i].AwaitWriter()
		})
	}
	return ends[0], ends[1]
}

// inbox reads a connection until the test ends.
func inbox(t *testing.T, c *Conn) <-chan Message {
	t.Helper()
	came, ended := make(chan Message), make(chan struct{})
	go func() {
		defer close(came)
		_ = c.Read(func(m Message) {
			select {
			case came <- m:
			case <-ended:
			}
		})
	}()
	t.Cleanup(func() {
		c.Shut(ErrClosed)
		close(ended)
		for range came { // until the reader has returned
			continue
		}
	})
	return came
}

func TestConnKeepsOrderAndFiles(t *testing.T) {
	c, other := connPair(t)
	const n = 20
	for i := range n {
		b := Start{ID: uint64(i + 1), Key: "g/a", Args: []string{strings.Repeat("\xff", i*10000)}}
		var files []*os.File
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			b.Stdout, files = 1, []*os.File{w}
		} else {
			_ = w.Close()
		}
		if err := c.Send(SessionClosed{"s"}); err != nil {
			t.Fatal(err)
		}
		if err := c.Send(b, files...); err != nil {
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
	came := inbox(t, other)
	for i := range n {
		if m := <-came; m.Body != (SessionClosed{"s"}) {
			t.Fatalf("message %d: %+v", i, m.Body)
		}
		m := <-came
		b, ok := m.Body.(Start)
		if !ok || b.ID != uint64(i+1) || len(b.Args[0]) != i*10000 || len(m.Files) != (i+1)%2 {
			t.Fatalf("message %d: %+v with %d files", i, m.Body, len(m.Files))
		}
		for _, f := range m.Files {
			if _, err := fmt.Fprint(f, i); err != nil {
				t.Error(err)
			}
			_ = f.Close()
		}
	}
}

// fill makes the socket so full that nothing more is written until somebody reads.
func fill(t *testing.T, c *Conn) {
	t.Helper()
	if err := c.Send(Start{ID: 1, Path: strings.Repeat("x", 4<<20)}); err != nil {
		t.Fatal(err)
	}
	for taken := false; !taken; time.Sleep(time.Millisecond) {
		c.mu.Lock()
		taken = len(c.queue) == 0
		c.mu.Unlock()
	}
}

func TestConnSendsOnlyTheNewestDeadline(t *testing.T) {
	c, other := connPair(t)
	fill(t, c)
	for i := range 1000 {
		d := Deadlines{Gone: elect.Instant{Mono: 1 + time.Duration(i)}}
		for _, session := range []string{"a", "b"} {
			if err := c.Send(Renewed{session, d}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := c.Send(Goodbye{}); err != nil {
		t.Fatal(err)
	}
	came := inbox(t, other)
	<-came
	for _, session := range []string{"a", "b"} {
		b, ok := (<-came).Body.(Renewed)
		if !ok || b.Session != session || b.Deadlines.Gone.Mono != 1+time.Duration(999) {
			t.Errorf("session %s: %+v", session, b)
		}
	}
	if m := <-came; m.Body != (Goodbye{}) {
		t.Errorf("then %+v", m.Body)
	}
}

func TestConnNeverBlocks(t *testing.T) {
	c, _ := connPair(t)
	fill(t, c)
	var err error
	for range maxQueue + 1 {
		if err = c.Send(Gone{1}); err != nil {
			break
		}
	}
	if !errors.Is(err, ErrQueueFull) {
		t.Errorf("the queue has no end: %v", err)
	}
}

func TestEveryBodyTravels(t *testing.T) {
	until := elect.Instant{Mono: 1, Boot: 2}
	c, other := connPair(t)
	came := inbox(t, other)
	sent := map[reflect.Type]bool{}
	for _, b := range []any{
		Hello{time.Second, time.Minute},
		Start{
			ID: 1, Key: "g/a", Session: "s", Token: 2, Path: "/\xff", Args: []string{"\xff", ""}, Env: []string{"A"},
			Dir: "/",
		},
		Stop{1, 15, time.Second},
		Renewed{"s", DeadlinesFrom(until, time.Second, 1)},
		SessionOpening{"s"},
		SessionClosed{"s"},
		RemoteLease{"s", "g/a", &until},
		RemoteLease{Session: "s", Key: "g/a"},
		RunInside{Session: "s", Key: "g/a"},
		RunInside{"s", "g/a", true},
		ApplicationKey{Session: "s", Key: "g/a"},
		ApplicationKey{"s", "g/a", true},
		ApplicationValid{until},
		HoldLock{},
		Pass{1, 15},
		Goodbye{},
		MeasureCPU{},
		Used{until, []Usage{{1, "g/a", time.Second}}},
		Started{1, 2, "no", 3},
		Exited{1, -1, 9},
		Gone{1},
		Reload,
		Alarm{Session: "s", Key: "g/a", Token: 1, PIDs: []int{1}, PastX: true},
		Signalled{15},
		Suspended{},
		Ping{},
	} {
		sent[reflect.TypeOf(b)] = true
		if err := c.Send(b); err != nil {
			t.Fatal(err)
		}
		if m := <-came; !reflect.DeepEqual(m.Body, b) {
			t.Errorf("%+v became %+v", b, m.Body)
		}
	}
	if len(sent) != len(bodies) {
		t.Errorf("%d kinds of %d tried", len(sent), len(bodies))
	}
}

// What is no message, and one without its files, ends the connection.
func TestConnEndsWithWhatCannotBeRead(t *testing.T) {
	for what, write := range map[string]func(*Conn){
		"no message": func(c *Conn) {
			if _, err := c.sock.Write([]byte("\x05hello")); err != nil {
				t.Error(err)
			}
		},
		"files that did not come": func(c *Conn) {
			if err := gob.NewEncoder(c.sock).Encode(envelope{HoldLock{}, 1}); err != nil {
				t.Error(err)
			}
		},
	} {
		c, other := connPair(t)
		write(c)
		err := other.Read(func(m Message) { t.Errorf("%s was taken as %v", what, m.Body) })
		if !errors.Is(err, ErrUnreadable) {
			t.Errorf("%s: %v", what, err)
		}
		<-other.Down()
	}
}

// Whatever cannot be written ends the connection at both ends: one that only reads would take pings for a guard.
func TestConnEndsWithAWriteThatFails(t *testing.T) {
	c, other := connPair(t)
	closed, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	if err := <-c.SendWait(HoldLock{}, closed); err == nil {
		t.Fatal("a file that is closed was sent")
	}
	<-c.Down()
	if err := other.Read(func(Message) {}); !errors.Is(err, io.EOF) {
		t.Errorf("the other end reads %v", err)
	}
}

func TestConnReadsWhatWasSentBeforeTheEnd(t *testing.T) {
	c, other := connPair(t)
	if err := <-other.SendWait(Goodbye{}); err != nil {
		t.Fatal(err)
	}
	other.Shut(ErrClosed)
	for c.Send(Ping{}) == nil { // until the writer has found out
		if err := <-c.SendWait(Gone{1}); err != nil {
			break
		}
	}
	var got []any
	_ = c.Read(func(m Message) { got = append(got, m.Body) })
	if len(got) != 1 || got[0] != (Goodbye{}) {
		t.Errorf("read %v", got)
	}
}

func TestHandover(t *testing.T) {
	t.Setenv(envGuard, "")
	want := Handover{FD: 3, PID: 7, Cgroup: "/sys/fs/cgroup/a:b"}
	env := want.AddTo([]string{"A=1", envGuard + "=of another"})
	if len(env) != 2 || env[0] != "A=1" {
		t.Fatalf("environment %q", env)
	}
	t.Setenv(envGuard, strings.TrimPrefix(env[1], envGuard+"="))
	if !IsWorker() {
		t.Error("not a worker")
	}
	if got, err := TakeHandover(); got != want || err != nil || IsWorker() {
		t.Errorf("%+v, %v; still there: %t", got, err, IsWorker())
	}
	for _, value := range []string{"", "3", "3:7", "x:7:", "3:x:"} {
		t.Setenv(envGuard, value)
		if got, err := TakeHandover(); err == nil {
			t.Errorf("%q is %+v", value, got)
		}
	}
}
