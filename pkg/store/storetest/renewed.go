package storetest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/clock"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// Renewed tests a store while its certificates are renewed, those of both sides and of another authority, as by
// cert-manager. It goes on with them, and with those there were as long as the new ones are not whole.
type Renewed struct {
	// URI is that of the server, with parameters for these files.
	URI func(files Files) string
	// Old and New are the files of a client. The server takes those of Old.
	Old, New Files
	// Break breaks all connections. The server goes on.
	Break func()
	// Restart has the server take those of New alone, after a restart.
	Restart func()
	// WatchEnds is that of [Faults].
	WatchEnds bool
}

// Run runs the test.
func (r Renewed) Run(t *testing.T) {
	t.Helper()
	f := Faults{Call: time.Second, WatchEnds: r.WatchEnds}
	files := r.files(t)
	r.write(t, files, r.Old)
	c := driver.Config{URI: r.URI(files), Timeout: f.Call}
	s := Open(t, c)
	guard := openedBeside(t, c)
	notes := f.watch(t, s)
	f.goOn(t, s, 0)
	// The authority is empty, and the certificate belongs to another key.
	truncate(t, files.Authority)
	copyFile(t, files.Cert, r.New.Cert)
	r.Break()
	f.goOn(t, s, 1)
	for _, file := range []string{files.Authority, files.Cert, files.Key} {
		if err := os.Remove(file); file != "" && err != nil {
			t.Fatal(err)
		}
	}
	r.Break()
	f.goOn(t, s, 2)
	r.write(t, files, r.New)
	r.Restart()
	f.goOn(t, s, 3)
	f.wantWatched(t, s, notes, "watched", Fault{Name: "the certificates were renewed"})
	untilApplied(t, guard, Heartbeat("marked by the guard", 0), f.Call)
}

// files are where a client looks for what Old and New have.
func (r Renewed) files(t *testing.T) Files {
	t.Helper()
	dir := t.TempDir()
	at := func(name, like string) string {
		if like == "" {
			return ""
		}
		return filepath.Join(dir, name)
	}
	return Files{at("ca.pem", r.Old.Authority), at("tls.crt", r.Old.Cert), at("tls.key", r.Old.Key)}
}

func (r Renewed) write(t *testing.T, to, from Files) {
	t.Helper()
	copyFile(t, to.Authority, from.Authority)
	copyFile(t, to.Cert, from.Cert)
	copyFile(t, to.Key, from.Key)
}

// copyFile puts a file in the place of another. Without a name nothing is done.
func copyFile(t *testing.T, to, from string) {
	t.Helper()
	if to == "" {
		return
	}
	content, err := os.ReadFile(from) //nolint:gosec // G304: a file of the test
	if err == nil {
		err = os.WriteFile(to, content, 0o600) //nolint:gosec // G703: in a directory of the test
	}
	if err != nil {
		t.Fatal(err)
	}
}

func truncate(t *testing.T, file string) {
	t.Helper()
	if err := os.Truncate(file, 0); err != nil {
		t.Fatal(err)
	}
}

// openedBeside opens a store as a guard does: for a few calls, long before them.
func openedBeside(t *testing.T, c driver.Config) driver.Store {
	t.Helper()
	c.Existing = true
	return Open(t, c)
}

// goOn wants all of a client to go on, whatever its calls fail by before: each lane, and reads. rev is that of its
// session.
func (f Faults) goOn(t *testing.T, s driver.Store, rev int64) {
	t.Helper()
	untilApplied(t, s, Heartbeat("s", rev), f.call())
	untilApplied(t, s, increment("g"), f.call())
	f.read(t, s, "s")
}

// Passwords tests a store whose password is changed while it is open: it asks for the URI again when it logs in, never
// for a call, and shows none of the passwords that it has seen.
type Passwords struct {
	// URI is that of a user with this password.
	URI func(password string) string
	// Change changes the user's password at the server, and breaks all connections.
	Change func(old, now string)
	// WatchEnds is that of [Faults].
	WatchEnds bool
}

// FirstPassword is the user's before [Passwords.Change] is called. A half of it, or of those that follow, must not be
// shown.
const FirstPassword = Password + "-one"

// Run runs the test.
func (p Passwords) Run(t *testing.T) {
	t.Helper()
	f := Faults{Call: time.Second, WatchEnds: p.WatchEnds}
	var now atomic.Pointer[string]
	var asked atomic.Int64
	file := func(password string) {
		uri := p.URI(password)
		now.Store(&uri)
	}
	file(FirstPassword)
	c := driver.Config{URI: p.URI(FirstPassword), Timeout: f.Call, Renew: func() (string, error) {
		asked.Add(1)
		uri := *now.Load()
		if uri == "" {
			return "", errors.New("no such file")
		}
		return uri, nil
	}}
	s := Open(t, c)
	guard := openedBeside(t, c)
	notes := f.watch(t, s)
	f.goOn(t, s, 0)
	f.wantNothingAsked(t, s, &asked)
	const second, third = Password + "-two", Password + "-three"
	// The server has it first. What the file says meanwhile is of no use.
	file("")
	p.Change(FirstPassword, second)
	for _, part := range []string{"", second[:len(second)-1]} {
		file(part)
		for range 5 {
			ctx, cancel := context.WithTimeout(t.Context(), f.call())
			outs, err := s.Apply(ctx, increment("g"))
			cancel()
			if err != nil {
				t.Fatal(err)
			}
			if outs[0].Err != nil {
				wantHidden(t, outs[0].Err.Error())
			}
			_ = clock.Sleep(t.Context(), 50*time.Millisecond)
		}
	}
	file(second)
	f.goOn(t, s, 1)
	// The file has it first. Between the two it cannot be read.
	file(third)
	f.goOn(t, s, 2)
	p.Change(second, third)
	f.goOn(t, s, 3)
	none := ""
	now.Store(&none)
	f.goOn(t, s, 4)
	f.wantWatched(t, s, notes, "watched", Fault{Name: "the password was changed"})
	file(third)
	untilApplied(t, guard, Heartbeat("marked by the guard", 0), f.Call)
	f.wantNothingAsked(t, s, &asked)
}

// wantNothingAsked wants calls over connections that there are to ask for no URI, and so to read no file.
func (f Faults) wantNothingAsked(t *testing.T, s driver.Store, asked *atomic.Int64) {
	t.Helper()
	const most = 20 // connections that are made meanwhile
	before := asked.Load()
	for range 10 * most {
		untilApplied(t, s, increment("fast"), f.call())
		f.read(t, s, "s")
	}
	if n := asked.Load() - before; n > most {
		t.Errorf("the URI was asked for %d times in %d calls, want once for a connection", n, 20*most)
	}
}
