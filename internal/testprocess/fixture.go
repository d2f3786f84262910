//go:build unix

package testprocess

import (
	"context"
	"testing"
)

// Fixture is a test's [Server]. Its methods fail the test on an error, and so are called in the test's goroutine.
type Fixture struct {
	Addr   string // HOST:PORT of clients
	server *Server
	tb     testing.TB
}

// NewFixture makes a server the test's.
func NewFixture(tb testing.TB, server *Server) *Fixture {
	tb.Helper()
	return &Fixture{Addr: server.Addr(), server: server, tb: tb}
}

// Kill ends it as kill -9 does. The data stays.
func (f *Fixture) Kill() { f.server.Kill() }

// Stop ends it in an orderly way.
func (f *Fixture) Stop() {
	f.tb.Helper()
	if err := f.server.Stop(); err != nil {
		f.tb.Fatal(err)
	}
}

// Start starts it again on the same data and port, and returns once it serves clients.
func (f *Fixture) Start() {
	f.tb.Helper()
	if err := f.server.Start(context.WithoutCancel(f.tb.Context())); err != nil {
		f.tb.Fatal(err)
	}
}

// Freeze stops all its threads: connections stay open and nothing answers.
func (f *Fixture) Freeze() { f.server.Freeze() }

// Thaw lets it go on.
func (f *Fixture) Thaw() { f.server.Thaw() }

// Link puts a proxy in front of it that ends with the test.
func (f *Fixture) Link() *Proxy {
	f.tb.Helper()
	return Link(f.tb, f.Addr)
}

// Server is what runs.
func (f *Fixture) Server() *Server { return f.server }
