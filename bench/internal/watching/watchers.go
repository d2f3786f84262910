//go:build linux

package watching

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardctl/shardctl/bench/internal/lab"
	"github.com/shardctl/shardctl/internal/sleep"
	"github.com/shardctl/shardctl/test/e2e/harness"
)

// watcherSet is connections that watch one replica. Their own work is in this process, and not measured.
type watcherSet struct {
	stop  context.CancelFunc
	ended sync.WaitGroup
	begun atomic.Int64 // connections whose first bytes have come, or that have ended
	lost  atomic.Int64 // connections that ended before their time
	bytes atomic.Int64
}

// gather opens n connections, on these paths in turn, and reads all that comes as fast as it comes.
func gather(ctx context.Context, address string, n int, paths ...string) *watcherSet {
	ctx, stop := context.WithCancel(ctx)
	c := &watcherSet{stop: stop}
	opening := make(chan struct{}, 64)
	for i := range n {
		c.ended.Go(func() {
			var once sync.Once
			begun := func() { once.Do(func() { c.begun.Add(1) }) }
			defer begun()
			opening <- struct{}{}
			body, end, err := watch(ctx, address, paths[i%len(paths)])
			<-opening
			if err == nil {
				defer end()
				err = c.read(body, begun)
			}
			if err != nil && ctx.Err() == nil {
				c.lost.Add(1)
			}
		})
	}
	return c
}

func (c *watcherSet) read(body io.Reader, begun func()) error {
	buffer := make([]byte, 16<<10)
	for {
		n, err := body.Read(buffer)
		if err != nil {
			return err
		}
		begun()
		c.bytes.Add(int64(n))
	}
}

// all waits until n have begun.
func (c *watcherSet) all(ctx context.Context, n int) error {
	for c.begun.Load() < int64(n) {
		if err := sleep.For(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// leave ends all connections.
func (c *watcherSet) leave() {
	c.stop()
	c.ended.Wait()
}

// watch opens one connection. The body is as it comes, in gzip. It ends with ctx or by end.
func watch(ctx context.Context, address, path string) (body io.Reader, end func(), err error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, nil, err
	}
	unhook := context.AfterFunc(ctx, func() { _ = conn.Close() })
	end = func() {
		unhook()
		_ = conn.Close() // nothing is written to it
	}
	if _, err := fmt.Fprintf(
		conn, "GET %s HTTP/1.1\r\nHost: %s\r\nAccept-Encoding: gzip\r\n\r\n", path, address,
	); err != nil {
		end()
		return nil, nil, err
	}
	answer, err := http.ReadResponse(bufio.NewReaderSize(conn, 4<<10), nil) //nolint:bodyclose // the connection ends
	if err != nil {
		end()
		return nil, nil, err
	}
	if answer.StatusCode != http.StatusOK {
		end()
		return nil, nil, fmt.Errorf("%s: %s", path, answer.Status)
	}
	return answer.Body, end, nil
}

// watchSlowly keeps n slow connections open. Half of them read nothing, the others a byte a second. Half of both take
// gzip. Half of all have filters of their own, so that each is sent another list. Each comes again after some time.
func watchSlowly(ctx context.Context, address string, n int) *watcherSet {
	ctx, stop := context.WithCancel(ctx)
	c := &watcherSet{stop: stop}
	for i := range n {
		c.ended.Go(func() {
			for round := 0; ctx.Err() == nil; round++ {
				c.watchSlowlyOnce(ctx, address, i, round)
			}
		})
	}
	return c
}

// comesAgain is how long a slow watcher stays. The replica gives each chunk ten seconds.
const comesAgain = 14 * time.Second

// watchSlowlyOnce is one slow connection.
func (c *watcherSet) watchSlowlyOnce(ctx context.Context, address string, i, round int) {
	ctx, cancel := context.WithTimeout(ctx, comesAgain)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		<-ctx.Done()
		return
	}
	defer func() { _ = conn.Close() }() // nothing is written to it
	accept := "Accept-Encoding: gzip\r\n"
	if i%4 < 2 {
		accept = ""
	}
	path := mixed[0]
	if i%8 < 4 {
		path += fmt.Sprintf("&selector=!none-%d-%d", i, round)
	}
	_, err = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\n%s\r\n", path, address, accept)
	if err != nil {
		<-ctx.Done()
		return
	}
	c.begun.Add(1)
	if i%2 == 0 {
		<-ctx.Done()
		return
	}
	one := make([]byte, 1)
	for {
		if sleep.For(ctx, time.Second) != nil {
			return
		}
		_ = conn.SetReadDeadline(time.Now().Add(time.Second))
		if _, err := conn.Read(one); err != nil && !strings.Contains(err.Error(), "timeout") {
			c.lost.Add(1)
			<-ctx.Done()
			return
		}
	}
}

const (
	slowWatchers = 256
	manyTasks    = 100_000
	// slowTarget is how much memory slow watchers may take in all, in bytes.
	slowTarget = 128 << 20
)

// extremes are the most that was seen within a window.
type extremes struct {
	memory  int64         // of the worker
	sockets int64         // of all of this machine
	age     time.Duration // of the watched replica's heartbeat, as the other one sees it
}

// SlowWatchers measures what watchers that do not read take of a replica that knows a hundred thousand tasks. None of
// them has an owner: it is the list that is large. A few others change their owners all the time.
func SlowWatchers(ctx context.Context, b *lab.Lab) error {
	window := time.Minute
	if b.Quick {
		window = 30 * time.Second
	}
	return withPair(ctx, b, manyTasks, "pool: none", func(p *pair) error {
		changing, stop := context.WithCancel(ctx)
		done := make(chan error, 1)
		var moved atomic.Int64
		go func() { done <- p.change(changing, harness.Group, movable, &moved) }()
		before, err := p.worst(ctx, window)
		var during extremes
		if err == nil {
			siege := watchSlowly(ctx, p.watched.Client.Server, slowWatchers)
			during, err = p.worst(ctx, window)
			b.Note("  slow watchers", "%d connections of %d at once, %d cut off while they read; %d changes",
				siege.begun.Load(), slowWatchers, siege.lost.Load(), moved.Load())
			siege.leave()
		}
		stop()
		if err := errors.Join(err, <-done); err != nil {
			return err
		}
		b.Figure(fmt.Sprintf("%d slow watchers, %d tasks, memory", slowWatchers, manyTasks),
			during.memory-before.memory < slowTarget, fmt.Sprintf("< %.0f MiB more", mib(slowTarget)),
			"%.1f MiB more than %.1f; %.1f MiB more in the kernel, at both ends of the sockets",
			mib(during.memory-before.memory), mib(before.memory), mib(during.sockets-before.sockets))
		slack := p.Lease / 20
		b.Figure(fmt.Sprintf("%d slow watchers, heartbeats", slowWatchers), during.age <= before.age+slack,
			fmt.Sprintf("at most a twentieth of the lease (%v) later than without", slack),
			"the oldest was %s, without watchers %s", lab.MS(during.age), lab.MS(before.age))
		return nil
	})
}

// worst looks for a while.
func (p *pair) worst(ctx context.Context, window time.Duration) (extremes, error) {
	var worst extremes
	for begin := time.Now(); time.Since(begin) < window; {
		if err := sleep.For(ctx, 250*time.Millisecond); err != nil {
			return worst, err
		}
		memory, err := p.resident()
		if err != nil {
			return worst, err
		}
		kernel, err := sockets()
		if err != nil {
			return worst, err
		}
		age, err := p.age(ctx)
		if err != nil {
			return worst, err
		}
		worst = extremes{max(worst.memory, memory), max(worst.sockets, kernel), max(worst.age, age)}
	}
	return worst, nil
}

// age is that of the watched replica's newest heartbeat, as the other one sees it.
func (p *pair) age(ctx context.Context) (time.Duration, error) {
	text, err := p.other.Client.Read(ctx, "/api/v1/instances?instance="+p.watched.Name)
	if err != nil {
		return 0, err
	}
	var list struct {
		Items []struct {
			HeartbeatAgeSeconds float64 `json:"heartbeatAgeSeconds"`
		} `json:"items"`
	}
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return 0, err
	}
	if len(list.Items) != 1 {
		return 0, fmt.Errorf("%d instances called %s", len(list.Items), p.watched.Name)
	}
	return time.Duration(list.Items[0].HeartbeatAgeSeconds * float64(time.Second)), nil
}
