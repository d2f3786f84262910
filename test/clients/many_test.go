package clients_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/elect"
)

// holdMany: while nothing changes, a call of an application with ten thousand keys is small. Times are printed alone.
func holdMany(t *testing.T, n *network, a *app) {
	t.Helper()
	n.hub.longer()
	keys := make([]*key, 10_000)
	for i := range keys {
		keys[i] = n.hub.give("many/"+strconv.Itoa(i), int64(i+1), nil)
	}
	count := n.hub.give("count/one", 1, nil)
	a.saysAtLast("owned 10001")
	count.stop(elect.ErrReleased)
	count.free()
	idle(t, n, a)
	change(t, n, a)
	for _, k := range keys {
		k.stop(elect.ErrReleased)
	}
	for _, k := range keys {
		k.free()
	}
	count = n.hub.give("count/one", 2, nil)
	a.saysAtLast("owned 1")
	count.stop(elect.ErrReleased)
	count.free()
}

// idle measures ten calls that say that nothing has changed.
func idle(t *testing.T, n *network, a *app) {
	t.Helper()
	const calls, most = 10, 1 << 10 // bytes of a call with its reply
	for limit := time.Now().Add(wait); ; {
		began, bytes, answers := time.Now(), n.bytes.Load(), n.answered()
		used, named := processorTime(a.cmd.Process.Pid, ""), processorTime(a.cmd.Process.Pid, ofLibrary)
		for n.answered() < answers+calls && time.Now().Before(limit) {
			time.Sleep(10 * time.Millisecond)
		}
		each := (n.bytes.Load() - bytes) / calls
		if each < most {
			took := time.Since(began)
			share := func(prefix string, before time.Duration) float64 {
				return 100 * (processorTime(a.cmd.Process.Pid, prefix) - before).Seconds() / took.Seconds()
			}
			t.Logf("10,000 keys, nothing changes: a call with its reply has %d bytes; %d calls in %v, %.2f %% of a core "+
				"(%.2f in threads that the library has named)",
				each, calls, took.Round(time.Millisecond), share("", used), share(ofLibrary, named))
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("a call with its reply has %d bytes while nothing changes, want less than %d", each, most)
		}
	}
}

// change measures how long it takes until one key more begins, and until it ends.
func change(t *testing.T, n *network, a *app) {
	t.Helper()
	const rounds = 10
	var begins, ends []time.Duration
	app, replica := processorTime(a.cmd.Process.Pid, ""), processorTime(os.Getpid(), "")
	for token := int64(1); token <= rounds; token++ {
		at := time.Now()
		k := n.hub.give("work/one", token, nil)
		a.saysAtLast(fmt.Sprintf("begin work/one %d", token))
		begins, at = append(begins, time.Since(at)), time.Now()
		k.stop(elect.ErrReleased)
		a.saysAtLast(fmt.Sprintf("end work/one %d", token))
		ends = append(ends, time.Since(at))
		k.free()
	}
	slices.Sort(begins)
	slices.Sort(ends)
	last := len(begins) - 1
	t.Logf("10,000 keys: one more begins after %v (at most %v) and ends after %v (at most %v); "+
		"both take %v of processor time, and %v in the process of this test",
		begins[last/2].Round(time.Millisecond), begins[last].Round(time.Millisecond),
		ends[last/2].Round(time.Millisecond), ends[last].Round(time.Millisecond),
		((processorTime(a.cmd.Process.Pid, "") - app) / rounds).Round(time.Millisecond/10),
		((processorTime(os.Getpid(), "") - replica) / rounds).Round(time.Millisecond/10))
}

// ofLibrary begins the names of the threads that belong to the library, where a language shows such names.
const ofLibrary = "shardctl-"

// processorTime is what the threads of a process have used whose names begin so; 0 where there is no /proc.
func processorTime(pid int, prefix string) (sum time.Duration) {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	for _, thread := range threads {
		name, _ := os.ReadFile(filepath.Join(thread, "comm")) // a thread may have ended
		if !strings.HasPrefix(string(name), prefix) {
			continue
		}
		text, _ := os.ReadFile(filepath.Join(thread, "schedstat"))
		var ns int64
		_, _ = fmt.Sscan(string(text), &ns)
		sum += time.Duration(ns)
	}
	return sum
}

// counter is a listener that counts what its connections carry.
type counter struct {
	net.Listener

	bytes *atomic.Int64
}

func (c counter) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	return counted{conn, c.bytes}, err
}

type counted struct {
	net.Conn

	bytes *atomic.Int64
}

func (c counted) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.bytes.Add(int64(n))
	return n, err
}

func (c counted) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.bytes.Add(int64(n))
	return n, err
}
