package storetest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/store/driver"
)

// Network is what is between a store and its servers, in a test.
type Network interface {
	// Cut breaks every connection. What connects later works.
	Cut()
	// Dialled is how many connections were made.
	Dialled() int
}

// Distant tests a store whose servers are far away: one call has not the time in which a connection is made, and yet
// all of them go on.
type Distant struct {
	// Network is as long as Trip.
	Network Network
	Trip    time.Duration
	// URI leads through the network.
	URI string
	// Calls is how many trips a call takes once it has a connection, at most. Zero means 2.
	Calls int
	// Connections is how many connections the client may have open at once.
	Connections int
	// WatchEnds is that of [Faults].
	WatchEnds bool
}

// Run runs the test.
func (d Distant) Run(t *testing.T) {
	t.Helper()
	calls := max(d.Calls, 2)
	f := Faults{Call: time.Duration(calls) * d.Trip * 5 / 4, WatchEnds: d.WatchEnds}
	s := Open(t, driver.Config{URI: d.URI, Timeout: f.Call})
	notes := f.watch(t, s)
	for rev := range int64(3) {
		f.Until(t, s, Heartbeat("session", rev))
	}
	const cuts = 3
	for range cuts {
		before := d.Network.Dialled()
		d.Network.Cut()
		f.Until(t, s, increment("g"))
		f.read(t, s, "session")
		notes = f.wantWatched(t, s, notes, "watched", Fault{Name: "cut"})
		// Each connection once more, and some for calls that a busy machine has made late.
		if n := d.Network.Dialled() - before; n > 4*d.Connections {
			t.Errorf("after a cut %d connections were made, want about %d", n, d.Connections)
		}
	}
}

// read repeats a read, as callers do, until it is answered.
func (f Faults) read(t *testing.T, s driver.Store, id string) {
	t.Helper()
	for end := time.Now().Add(f.patience()); ; {
		ctx, cancel := context.WithTimeout(t.Context(), f.call())
		reply, err := s.Read(ctx, driver.KindSession, id)
		cancel()
		switch {
		case err == nil && len(reply.Docs) == 1:
			return
		case !errors.Is(err, driver.ErrUnavailable), time.Now().After(end):
			t.Fatalf("read of session %s: %+v, %v", id, reply.Docs, err)
		}
	}
}

// Full tests a store whose server has no connection left, nor for a long time: it is asked rarely, however many calls
// there are, each call is told why, and all go on once there are some.
type Full struct {
	// Network is in front of the server.
	Network Network
	// URI leads through the network.
	URI string
	// Fill takes all connections of the server, and breaks those of the store; Free gives them back.
	Fill, Free func()
	// Says is a part of what the server says then; empty: it says nothing.
	Says string
	// Makers is how many connections may be tried at once: one for calls, and one for watches where those are others.
	Makers int
}

// Run runs the test.
func (f Full) Run(t *testing.T) {
	t.Helper()
	calls := Faults{Call: 300 * time.Millisecond}
	s := Open(t, driver.Config{URI: f.URI, Timeout: calls.Call})
	calls.Until(t, s, Heartbeat("session", 0))
	calls.watch(t, s)
	f.Fill()
	before, began := f.Network.Dialled(), time.Now()
	told := 0
	for time.Since(began) < 3*time.Second {
		errs := make(chan error, 10)
		for range cap(errs) {
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), calls.Call)
				defer cancel()
				_, err := s.Read(ctx, driver.KindSession, "session")
				errs <- err
			}()
		}
		for range cap(errs) {
			switch err := <-errs; {
			case err == nil:
				t.Error("a call was answered by a server that is full")
			case f.Says != "" && strings.Contains(err.Error(), f.Says):
				told++
			}
		}
	}
	took := time.Since(began)
	// Pauses of 20, 40, 80, 160 ms, and then as long as a call.
	most := f.Makers * (6 + int(took/calls.Call))
	if n := f.Network.Dialled() - before; n > most {
		t.Errorf("%d connections were tried within %v, want at most %d", n, took, most)
	}
	if f.Says != "" && told == 0 {
		t.Errorf("no call was told that %q", f.Says)
	}
	f.Free()
	calls.Until(t, s, Heartbeat("session", 1))
}
