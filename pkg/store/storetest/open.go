package storetest

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// Password is the password in the URIs of [URIs] and [WantRefused]. An error that shows it is a failure, also if it shows
// one half of it: passwords are cut where their characters have a meaning in a URI.
const Password = "s3cret"

// WantError checks the error of a store that cannot be opened or used: it is of one kind, [driver.ErrInvalid] or
// [driver.ErrUnavailable] and not both, says all of says in one line, and shows no part of [Password] nor of secrets.
func WantError(t *testing.T, err, kind error, says ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want %v that says %q", kind, says)
		return
	}
	if !errors.Is(err, kind) || errors.Is(err, driver.ErrInvalid) == errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("got %v, want %v and nothing else", err, kind)
	}
	for _, text := range says {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("got %v, want it to say %q", err, text)
		}
	}
	if strings.ContainsAny(err.Error(), "\n\t") {
		t.Errorf("got %q, want one line", err)
	}
	wantHidden(t, err.Error())
}

// wantHidden checks that a text shows neither half of the password.
func wantHidden(t *testing.T, text string) {
	t.Helper()
	for _, part := range []string{Password[:3], Password[2:]} {
		if strings.Contains(text, part) {
			t.Errorf("%q shows a part of the password", text)
		}
	}
}

// WantRefused opens a store that cannot be opened. See [WantError] for what is checked.
func WantRefused(t *testing.T, c driver.Config, kind error, says ...string) {
	t.Helper()
	s, err := store.Open(t.Context(), patiently(c))
	if err == nil {
		_ = s.Close(t.Context())
		t.Errorf("%s is opened; want %v that says %q", redacted(c.URI), kind, says)
		return
	}
	WantError(t, err, kind, says...)
}

// Open opens a store that ends with the test.
func Open(t *testing.T, c driver.Config) driver.Store {
	t.Helper()
	opening, cancel := context.WithTimeout(t.Context(), 2*patience) // the time of a call may be too short for a set-up
	defer cancel()
	s, err := store.Open(opening, patiently(c))
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

// patiently gives a call more time by default, for a machine that is busy with other tests.
func patiently(c driver.Config) driver.Config {
	c.Timeout = cmp.Or(c.Timeout, 20*time.Second)
	return c
}

// Parsed is what becomes of a configuration before any server is asked.
type Parsed struct {
	Config driver.Config
	// Database is that of a configuration that is right.
	Database string
	// Field is the setting that is wrong, and Says a part of the error. Empty: the configuration is right.
	Field, Says string
}

// URIs tests what a kind of store makes of its URIs, without a server. Passwords in them are [Password].
type URIs struct {
	// Right maps URIs to the database that they name, or that is the default. It is empty where it is a part of the URI
	// alone.
	Right map[string]string
	// Wrong maps URIs to a part of the error.
	Wrong map[string]string
	// Configs are configurations that say more than a URI.
	Configs []Parsed
	// Shown maps URIs to what is shown of them.
	Shown map[string]string
	// Nobody makes a URI, with a user and a password, of an address where no server listens. Nil: there is no server.
	Nobody func(addr string) string
}

// Run runs the test.
func (u URIs) Run(t *testing.T) {
	t.Helper()
	all := u.Configs
	for uri, database := range u.Right {
		all = append(all, Parsed{Config: driver.Config{URI: uri}, Database: database})
	}
	for uri, says := range u.Wrong {
		all = append(all, Parsed{Config: driver.Config{URI: uri}, Field: "uri", Says: says})
	}
	for _, tt := range all {
		tt.check(t)
	}
	for uri, want := range u.Shown {
		if got := redacted(uri); got != want {
			t.Errorf("%s is shown as %s, want %s", uri, got, want)
		}
	}
	if u.Nobody != nil {
		t.Run("nobody listens", u.testNobody)
	}
}

func (p Parsed) check(t *testing.T) {
	t.Helper()
	wantHidden(t, redacted(p.Config.URI))
	got, err := driver.Parse(p.Config)
	if p.Field == "" {
		if err != nil || got.Database != p.Database || got.Cluster != cmp.Or(p.Config.Cluster, "default") {
			t.Errorf("%+v: got database %q, cluster %q, %v; want database %q", p.Config, got.Database, got.Cluster, err,
				p.Database)
		}
		return
	}
	WantError(t, err, driver.ErrInvalid, p.Says)
	if wrong, ok := errors.AsType[*driver.FieldError](err); !ok || wrong.Field != p.Field {
		t.Errorf("%+v: got %#v, want a FieldError of %s", p.Config, err, p.Field)
	}
}

// redacted is what is shown of a URI; nothing where no kind of store knows its scheme.
func redacted(uri string) string {
	d, err := driver.Lookup(uri)
	if err != nil {
		return ""
	}
	return d.Redact(uri)
}

// Where no server listens, both limits end the attempt to open: that of a call and that of the context.
func (u URIs) testNobody(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	const short = 300 * time.Millisecond
	t.Run("by the time of a call", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context()) // without a deadline, which would count in its place
		defer cancel()
		defer time.AfterFunc(patience, cancel).Stop()
		_, err := store.Open(ctx, driver.Config{URI: u.Nobody(addr), Timeout: short})
		WantError(t, err, driver.ErrUnavailable)
		if ctx.Err() != nil {
			t.Errorf("the call took %v, its limit was %v", patience, short)
		}
	})
	t.Run("by the context", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), short)
		defer cancel()
		began := time.Now()
		_, err := store.Open(ctx, driver.Config{URI: u.Nobody(addr), Timeout: patience})
		WantError(t, err, driver.ErrUnavailable)
		if took := time.Since(began); took >= patience {
			t.Errorf("the call took %v, its context %v", took, short)
		}
	})
}

// Files are those of a client that uses TLS: the authority that it trusts, and its own certificate with its key. Empty:
// it names none.
type Files struct{ Authority, Cert, Key string }

// Params are the files as parameters of a URI that has no others.
func (f Files) Params() string {
	params := url.Values{}
	for name, file := range map[string]string{
		"tlsCAFile": f.Authority, "tlsCertFile": f.Cert, "tlsKeyFile": f.Key,
	} {
		if file != "" {
			params.Set(name, file)
		}
	}
	return "?" + params.Encode()
}

// TLS tests clients of a server that takes TLS alone, and clients with a certificate alone.
type TLS struct {
	// URI is that of the server, with parameters for these files.
	URI func(files Files) string
	// Right are files that the server takes.
	Right Files
	// Stranger are those of an authority and a client that the server does not know.
	Stranger Files
	// Untrusted is a part of the error where the client does not trust the server.
	Untrusted string
	// Without is what a client without a certificate gets, and Strange one with a certificate that the server does not
	// know.
	Without, Strange Refusal
}

// Refusal is the error of a client that a server refuses.
type Refusal struct {
	// Kind is [driver.ErrInvalid], or [driver.ErrUnavailable] where a client cannot distinguish the refusal from a server
	// that is going down. Nil: it is chance which of both, as where a server closes the connection behind its alert.
	Kind error
	// Says is a part of the error.
	Says string
}

// Run runs the test.
func (s TLS) Run(t *testing.T) {
	t.Helper()
	s.wantOpened(t)
	right, stranger := s.Right, s.Stranger
	for name, tt := range map[string]struct {
		files Files
		want  Refusal
	}{
		"another authority": {
			Files{stranger.Authority, right.Cert, right.Key}, Refusal{driver.ErrInvalid, s.Untrusted},
		},
		"no such file": {
			Files{"/missing.pem", right.Cert, right.Key}, Refusal{driver.ErrInvalid, "/missing.pem"},
		},
		"no certificate":           {Files{Authority: right.Authority}, s.Without},
		"a stranger's certificate": {Files{right.Authority, stranger.Cert, stranger.Key}, s.Strange},
	} {
		t.Run(name, func(t *testing.T) {
			c := driver.Config{URI: s.URI(tt.files), Timeout: 5 * time.Second}
			_, err := store.Open(t.Context(), c)
			// In TLS 1.3 a client may write before the server's refusal arrives, and then finds a broken connection.
			for end := time.Now().Add(patience); errors.Is(tt.want.Kind, driver.ErrInvalid) &&
				errors.Is(err, driver.ErrUnavailable) && time.Now().Before(end); {
				_, err = store.Open(t.Context(), c)
			}
			if tt.want.Kind == nil {
				tt.want.Kind = driver.ErrUnavailable
				if errors.Is(err, driver.ErrInvalid) {
					tt.want.Kind = driver.ErrInvalid
				}
			}
			WantError(t, err, tt.want.Kind, tt.want.Says)
		})
	}
}

// wantOpened opens with the right files, as soon as the server serves, and writes.
func (s TLS) wantOpened(t *testing.T) {
	t.Helper()
	c := patiently(driver.Config{URI: s.URI(s.Right)})
	db, err := store.Open(t.Context(), c)
	for end := time.Now().Add(patience); errors.Is(err, driver.ErrUnavailable) && time.Now().Before(end); {
		db, err = store.Open(t.Context(), c)
	}
	if err != nil {
		t.Fatalf("with the right files: %v", err)
	}
	must(t, db, Heartbeat("over TLS", 0))
	if err := db.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// Rights tests users who may read and write, and those who may only read.
type Rights struct {
	// Writer is a store whose user has the least rights that the documentation names. Reader is one of the same
	// database whose user may only read, and who sets nothing up.
	Writer, Reader driver.Config
	// Grant is called once the writer has set up and written, and before the reader is opened. Nil: nothing is to do.
	Grant func()
	// Denied are parts of the error of a reader's write.
	Denied []string
}

// Run runs the test.
func (r Rights) Run(t *testing.T) {
	t.Helper()
	writer := Open(t, r.Writer)
	d := lock("g/a")
	for rev := range int64(2) {
		d.Rev, d.WriterID = rev+1, driver.WriterID{Session: "writer", Seq: rev}
		must(t, writer, driver.Change{IfRev: rev, Doc: d}, increment("g"))
	}
	if r.Grant != nil {
		r.Grant()
	}
	r.Reader.Existing = true
	reader := Open(t, r.Reader)
	wantStored(t, reader, d)
	listed, err := reader.List(t.Context(), driver.KindLock, driver.Query{})
	if err != nil || len(listed.Docs) != 1 {
		t.Errorf("a reader lists %+v, %v", listed.Docs, err)
	}
	replaced := d
	replaced.Rev, replaced.WriterID.Session = 3, "reader"
	created := lock("g/b")
	created.Rev, created.WriterID = 1, replaced.WriterID
	for name, c := range map[string]driver.Change{
		"creates": {Doc: created}, "replaces": {IfRev: 2, Doc: replaced}, "counts": increment("g"),
		"deletes": {Op: driver.Delete, IfRev: 2, Doc: d},
	} {
		out := apply(t, reader, c)
		if out.Status != driver.Unknown {
			t.Errorf("a reader %s: %s", name, describe(out))
			continue
		}
		WantError(t, out.Err, driver.ErrInvalid, r.Denied...)
	}
	wantStored(t, reader, d)
	wantAbsent(t, reader, driver.KindLock, "g/b")
}
