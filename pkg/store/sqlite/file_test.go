package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/sqlite"
	"github.com/shardctl/shardctl/pkg/store/storetest"
)

func TestParseURI(t *testing.T) {
	tests := []struct{ uri, want string }{
		{"sqlite:store.db", "store.db"},
		{"sqlite:./a b/store.db", "./a b/store.db"},
		{"sqlite:/var/lib/store.db", "/var/lib/store.db"},
		{"sqlite:///var/lib/store.db", "/var/lib/store.db"},
		{"sqlite:100%.db", "100%.db"},
		{"sqlite:", ""},
		{"sqlite://host/store.db", ""},
		{"sqlite::memory:", ""},
		{"sqlite:store.db?mode=memory", ""},
		{"sqlite:file:store.db", ""},
		{"mongodb://host", ""},
		{"store.db", ""},
	}
	for _, tt := range tests {
		got, err := sqlite.ParseURI(tt.uri)
		if got != tt.want || (err == nil) != (tt.want != "") || err != nil && !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%q: got %q, %v; want %q", tt.uri, got, err, tt.want)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text.db")
	if err := os.WriteFile(text, []byte(strings.Repeat("this is no database\n", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		path    string
		options sqlite.Options
		says    string
	}{
		"memory":            {path: ":memory:", says: "in memory"},
		"empty path":        {path: "", says: "empty path"},
		"missing directory": {path: filepath.Join(dir, "missing", "store.db"), says: "missing\" does not exist"},
		"directory":         {path: dir, says: "not a regular file"},
		"no database":       {path: text, says: "text.db"},
		"cluster": {
			path: filepath.Join(dir, "a.db"), options: sqlite.Options{Cluster: `a"b`}, says: "cluster",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := sqlite.Open(t.Context(), tt.path, tt.options)
			if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), tt.says) {
				t.Fatalf("got %v, want ErrInvalid that says %q", err, tt.says)
			}
		})
	}
}

func TestFileMode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "odd ?#%41 ü.db")
	s := open(t, path, sqlite.Options{})
	if out := apply(t.Context(), t, s, create("g/a")); out.Status != driver.Applied {
		t.Fatal(out)
	}
	for _, suffix := range []string{"", "-wal", "-shm"} {
		info, err := os.Stat(path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, want 0600", info.Name(), info.Mode())
		}
	}
}

// Clusters of one file know nothing of each other, whatever the case of their names.
func TestClusters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	for _, cluster := range []string{"", "blue", "Blue", "a-b.c_d"} {
		s := open(t, path, sqlite.Options{Cluster: cluster})
		if out := apply(t.Context(), t, s, create("g/a")); out.Status != driver.Applied {
			t.Fatalf("cluster %q: %+v", cluster, out)
		}
	}
}

// While somebody else keeps the write lock, as a stopped process would, reads go on. A write ends with its context as
// unknown and is answered when it is repeated.
func TestLocked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s := open(t, path, sqlite.Options{})
	unlock := lockFile(t, path)

	brief, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond)
	defer cancel()
	out := apply(brief, t, s, create("g/a"))
	if out.Status != driver.Unknown || !errors.Is(out.Err, driver.ErrUnavailable) ||
		!strings.Contains(out.Err.Error(), path) {
		t.Fatalf("got %+v, want unknown, ErrUnavailable and the path", out)
	}
	if _, err := s.Read(t.Context(), driver.KindLock, "g/a"); err != nil {
		t.Fatalf("read during a write: %v", err)
	}
	unlock()
	if out := apply(t.Context(), t, s, create("g/a")); out.Status != driver.Applied {
		t.Fatalf("repeated: %+v", out)
	}
}

// A set-up that finds the file locked waits for it, no longer than its context.
func TestOpenLocked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	open(t, path, sqlite.Options{})
	unlock := lockFile(t, path)
	brief, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond)
	defer cancel()
	if _, err := sqlite.Open(brief, path, sqlite.Options{Cluster: "new"}); !errors.Is(err, driver.ErrUnavailable) {
		t.Fatalf("got %v, want ErrUnavailable", err)
	}
	// Nothing is to be set up for a cluster that is there.
	open(t, path, sqlite.Options{})
	unlock()
	open(t, path, sqlite.Options{Cluster: "new"})
}

// lockFile takes the write lock on a connection of its own.
func lockFile(t *testing.T, path string) (unlock func()) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.ExecContext(t.Context(), `BEGIN IMMEDIATE`); err != nil {
		t.Fatal(err)
	}
	return func() {
		if _, err := conn.ExecContext(t.Context(), `ROLLBACK`); err != nil {
			t.Fatal(err)
		}
		_ = conn.Close()
	}
}

// A database of which a file was removed or replaced is not used any more, and no one opens it by another log: others
// may be using, or may come to use, its successor. What was acknowledged is there once all have ended.
func TestReplaced(t *testing.T) {
	for _, suffix := range []string{"", "-wal", "-shm"} {
		for _, how := range []string{"removed", "replaced"} {
			t.Run("file"+suffix+" "+how, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "store.db")
				s := open(t, path, sqlite.Options{})
				if out := apply(t.Context(), t, s, create("g/a")); out.Status != driver.Applied {
					t.Fatal(out)
				}
				notifications, err := s.Watch(t.Context(), driver.Interest{Session: "me"})
				if err != nil {
					t.Fatal(err)
				}
				if err := os.Rename(path+suffix, path+suffix+".old"); err != nil {
					t.Fatal(err)
				}
				if how == "replaced" {
					if err := os.WriteFile(path+suffix, nil, 0o600); err != nil {
						t.Fatal(err)
					}
				}
				wantRefused(t, s)
				timeout := time.After(30 * time.Second)
				for open := true; open; {
					select {
					case _, open = <-notifications:
					case <-timeout:
						t.Fatal("the watch goes on")
					}
				}
				if suffix == "" {
					return // the path leads to another database, which is nobody's yet
				}
				wantNoOther(t, path, suffix == "-wal" && how == "replaced")
				if err := s.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
				reply, err := open(t, path, sqlite.Options{}).Read(t.Context(), driver.KindLock, "g/a")
				if err != nil || len(reply.Docs) != 1 {
					t.Errorf("once all have ended: %+v, %v", reply.Docs, err)
				}
			})
		}
	}
}

// wantRefused wants reads and writes to be refused for good.
func wantRefused(t *testing.T, s driver.Store) {
	t.Helper()
	out := apply(t.Context(), t, s, create("g/b"))
	if out.Status != driver.Unknown || !errors.Is(out.Err, driver.ErrInvalid) {
		t.Errorf("write: %+v, want ErrInvalid", out)
	}
	if _, err := s.Read(t.Context(), driver.KindLock, "g/a"); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("read: %v, want ErrInvalid", err)
	}
}

// wantNoOther wants a path not to be opened while somebody has its database open by another log. Where the shared memory
// is still that of all, SQLite itself finds out.
func wantNoOther(t *testing.T, path string, itself bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	for _, existing := range []bool{false, true} {
		_, err := sqlite.Open(ctx, path, sqlite.Options{Existing: existing})
		want := fmt.Sprintf("process %d uses it with another log", os.Getpid())
		if itself {
			want = "disk I/O error"
		}
		if !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), want) {
			t.Errorf("another opener (%v): %v, want ErrUnavailable that says %q", existing, err, want)
		}
	}
}

// A file has one path, or there would be a log for each.
func TestSeveralNames(t *testing.T) {
	dir := t.TempDir()
	path, other := filepath.Join(dir, "store.db"), filepath.Join(dir, "other.db")
	s := open(t, path, sqlite.Options{})
	if err := os.Link(path, other); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{path, other} {
		_, err := sqlite.Open(t.Context(), name, sqlite.Options{})
		if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "2 names (hard links)") {
			t.Errorf("%s: %v, want ErrInvalid that says why", name, err)
		}
	}
	// Who has it open by its first name goes on: a backup may have made the link.
	if out := apply(t.Context(), t, s, create("g/a")); out.Status != driver.Applied {
		t.Error(out)
	}
	if err := os.Remove(other); err != nil {
		t.Fatal(err)
	}
	open(t, path, sqlite.Options{})
}

// The log stays the same for as long as a store is open, whoever else opens and closes the database.
func TestLogStays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s := open(t, path, sqlite.Options{})
	before, err := os.Stat(path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		other, err := sqlite.Open(t.Context(), path, sqlite.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if out := apply(t.Context(), t, other, create(fmt.Sprint("g/", i))); out.Status != driver.Applied {
			t.Fatal(out)
		}
		if err := other.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if out := apply(t.Context(), t, s, create(fmt.Sprint("h/", i))); out.Status != driver.Applied {
			t.Fatal(out)
		}
	}
	after, err := os.Stat(path + "-wal")
	if err != nil || !os.SameFile(before, after) {
		t.Errorf("the log is another one: %v", err)
	}
}

// A file whose pages are rubbish gives errors that name it.
func TestCorrupt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := 100; i < len(content); i++ {
		content[i] = 0xa5
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = sqlite.Open(t.Context(), path, sqlite.Options{})
	if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), path) {
		t.Fatalf("got %v, want ErrInvalid and the path", err)
	}
}

// A day of one replica with a lease of 20 s is 43,200 heartbeats: 4,320 of each of the test's ten replicas.
var heartbeats = flag.Int("heartbeats", 500, "how many heartbeats each replica of TestGarbageOfHeartbeats writes")

// Heartbeats leave no garbage that grows: SQLite writes its log from the beginning again at four megabytes.
func TestGarbageOfHeartbeats(t *testing.T) {
	const replicas, pageSize = 10, 4096
	path := filepath.Join(t.TempDir(), "locks.db")
	s, err := store.Open(t.Context(), driver.Config{URI: "sqlite:" + path})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close(t.Context()) }()
	var most int64
	for heartbeat := range int64(*heartbeats) {
		for i := range replicas { // each a transaction of its own, as replicas send them
			outs, err := s.Apply(t.Context(), storetest.Heartbeat(fmt.Sprint("session-", i), heartbeat))
			if err != nil || outs[0].Status != driver.Applied {
				t.Fatalf("heartbeat %d: %+v, %v", heartbeat, outs, err)
			}
		}
		most = max(most, size(t, path+"-wal"))
	}
	file := size(t, path)
	t.Logf("%d heartbeats: the file has %d bytes, its log at most %d", replicas**heartbeats, file, most)
	if most > 5<<20 {
		t.Errorf("the log had %d bytes, want at most 5 MiB", most)
	}
	if file > 60*pageSize {
		t.Errorf("the file has %d bytes, want no growth", file)
	}
}

func size(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// What is shown is what the connections really have: a commit reaches the disk before it is acknowledged.
func TestInspect(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "store.db"), sqlite.Options{})
	got, err := store.Inspect(t.Context(), s)
	if err != nil || !strings.HasPrefix(got.Server, "SQLite 3.") {
		t.Fatalf("server %q, %v", got.Server, err)
	}
	want := map[string]string{"journal_mode": "wal", "synchronous": "FULL"}
	for _, setting := range got.Settings {
		if value := want[setting.Name]; setting.Value != value || !setting.Holds {
			t.Errorf("%+v, want %q, holding", setting, value)
		}
	}
	if len(got.Settings) != len(want) {
		t.Errorf("settings %+v, want %v", got.Settings, want)
	}
}
