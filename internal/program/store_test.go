package program

import (
	"context"
	"database/sql"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/cli"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/internal/storecheck"
	"github.com/shardctl/shardctl/internal/storecopy"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/mutex"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/memory"
)

func TestStoreCheck(t *testing.T) {
	uri := "sqlite:" + filepath.Join(t.TempDir(), "a.db")
	t.Setenv("THE_STORE", uri)
	stdout, stderr, code := execute(t, "store", "check", "$(THE_STORE)", "-o", "json")
	if code != 0 || stderr != "" {
		t.Fatalf("code %d: %s", code, stderr)
	}
	var got storecheck.Result
	if err := json.Unmarshal([]byte(stdout), &got); err != nil {
		t.Fatal(err)
	}
	if !got.Holds || got.Driver != "sqlite" || got.Read.Samples != storecheck.Samples ||
		got.Write.Samples != storecheck.Samples || got.Notification.Samples != storecheck.Samples ||
		got.Write.P50Seconds <= 0 || got.Write.MaxSeconds < got.Write.P50Seconds {
		t.Errorf("%+v", got)
	}
	left := documents(t, uri)
	if len(left) != 0 {
		t.Errorf("the check left %v", left)
	}
	stdout, _, code = execute(t, "store", "check", "--read-only", uri)
	if code != 0 || !strings.Contains(stdout, "ok: nothing is missing") || !strings.Contains(stdout, "not measured") {
		t.Errorf("read only: code %d\n%s", code, stdout)
	}
}

// documents are all of a store, by kind and ID.
func documents(t *testing.T, uri string) []string {
	t.Helper()
	db, err := store.Open(t.Context(), store.Config{URI: uri, Existing: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close(t.Context()) }()
	var all []string
	for _, kind := range driver.Kinds() {
		found, err := db.List(t.Context(), kind, driver.Query{})
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range found.Docs {
			all = append(all, string(kind)+" "+d.ID)
		}
	}
	return all
}

// What cannot be read is not left behind without a word: the copy ends with exit code 1, names it, and marks nothing.
func TestStoreCopyOfUnreadableDocuments(t *testing.T) {
	dir := t.TempDir()
	path, to := filepath.Join(dir, "a.db"), "sqlite:"+filepath.Join(dir, "b.db")
	db, err := store.Open(t.Context(), store.Config{URI: "sqlite:" + path})
	if err != nil {
		t.Fatal(err)
	}
	var changes []driver.Change
	for i, id := range []string{"g/a", "g/b", "g/c"} {
		changes = append(changes, driver.Change{Doc: driver.Doc{
			Kind: driver.KindLock, ID: id, Group: "g", Rev: 5, WriterID: driver.WriterID{Session: "s", Seq: int64(i + 1)},
		}})
	}
	outs, err := db.Apply(t.Context(), changes...)
	if err != nil || outs[0].Status != driver.Applied {
		t.Fatal(outs, err)
	}
	if err := db.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	file, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	if _, err := file.ExecContext(t.Context(), "UPDATE default_locks SET rev = -1 WHERE id > 'g/a'"); err != nil {
		t.Fatal(err)
	}
	stdout, stderr, code := execute(t, "store", "copy", "sqlite:"+path, to)
	for _, want := range []string{
		`cannot read lock "g/b" (rev: -1: `, `cannot read lock "g/c" (`,
		"holds 2 documents",
	} {
		if !strings.Contains(stderr, want) {
			t.Errorf("it does not say %q", want)
		}
	}
	if code != cli.CodeNo || stdout != "" || t.Failed() {
		t.Errorf("code %d\n%s%s", code, stdout, stderr)
	}
	if left := documents(t, "sqlite:"+path); len(left) != 1 {
		t.Errorf("the source holds %v, want the lock that can be read and no mark", left)
	}
}

// A moved cluster runs on the new store alone: an error on the old one names the new one.
func TestStoreCopy(t *testing.T) {
	dir := t.TempDir()
	from, to := "sqlite:"+filepath.Join(dir, "a.db"), "sqlite:"+filepath.Join(dir, "b.db")
	db, err := store.Open(t.Context(), store.Config{URI: from})
	if err != nil {
		t.Fatal(err)
	}
	id := driver.WriterID{Session: "s", Seq: 1}
	ended := record.Session{ID: "s", Rev: 3, State: record.Dead, Lease: time.Second, WriterID: id}
	outs, err := db.Apply(
		t.Context(),
		driver.Change{Doc: driver.Doc{Kind: driver.KindLock, ID: "g/a", Group: "g", Rev: 5, WriterID: id}},
		driver.Change{Doc: ended.Doc()}, // the copy waits for its lease
	)
	if err != nil || outs[0].Status != driver.Applied || outs[1].Status != driver.Applied {
		t.Fatal(outs, err)
	}
	if err := db.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	stdout, stderr, code := execute(t, "store", "copy", from, to, "-o", "json")
	var report storecopy.Report
	if code != 0 || json.Unmarshal([]byte(stdout), &report) != nil || report.Documents["locks"] != 1 {
		t.Fatalf("code %d\n%s%s", code, stdout, stderr)
	}
	stdout, _, code = execute(t, "store", "copy", from, to)
	if code != 0 || !strings.Contains(stdout, "remove their access to the source") {
		t.Errorf("the same again: code %d\n%s", code, stdout)
	}
	config := writeConfig(t, "version: 1\nstore: {uri: \""+from+"\"}\n"+
		"groups: [{name: g, tasks: [{name: a, exec: {command: [date]}}]}]\n")
	_, stderr, code = execute(t, "pause", "g/a", "--config", config)
	if code == 0 || !strings.Contains(stderr, "was moved to "+to) {
		t.Errorf("a change of the old store: code %d, %s", code, stderr)
	}
	if got := documents(t, to); !strings.Contains(strings.Join(got, ","), "lock g/a,") {
		t.Errorf("at the target: %v", got)
	}
}

func TestStoreBadInput(t *testing.T) {
	dir := t.TempDir()
	file, absent := "sqlite:"+filepath.Join(dir, "a.db"), "sqlite:"+filepath.Join(dir, "none", "a.db")
	for _, tt := range []struct {
		line, says string
		code       int
	}{
		{"store check x:y", "does not begin with a known scheme", cli.CodeUsage},
		{"store check", "name a store: ", cli.CodeUsage},
		{"store check $(NO_SUCH_VARIABLE)", "NO_SUCH_VARIABLE", cli.CodeUsage},
		{"store check " + absent, "does not exist", cli.CodeUsage},
		{"store check --read-only " + file, "no replica has made this store yet", cli.CodeUsage},
		{"store check --timeout 0s " + file, "--timeout 0s", cli.CodeUsage},
		{"store check -o xml " + file, `-o "xml"`, cli.CodeUsage},
		{"store check mongodb://u:opensesame@127.0.0.1:1/ --timeout 1s", "store unavailable", cli.CodeNo},
		{"store copy " + file, "accepts 2 arg(s)", cli.CodeUsage},
		{"store copy " + file + " " + file, "the same store", cli.CodeUsage},
		{"store copy " + file + " " + file + "2", "no replica has made this store yet", cli.CodeUsage},
		{"store chek", `did you mean check`, cli.CodeUsage},
	} {
		_, stderr, code := execute(t, strings.Fields(tt.line)...)
		if code != tt.code || !strings.Contains(stderr, tt.says) || strings.Count(stderr, "\n") != 1 ||
			strings.Contains(stderr, "opensesame") {
			t.Errorf("%s: code %d, want %d and one line that says %q:\n%s", tt.line, code, tt.code, tt.says, stderr)
		}
	}
}

// reporting is a driver of stores in memory that report what their URI says.
type reporting struct{}

// inspected is such a store; its URI says what is wrong.
type inspected struct {
	*memory.Store
	uri string
}

func init() { driver.Register("reporting", reporting{}) }

func (reporting) Name() string                               { return "reporting" }
func (reporting) Form(scheme string) string                  { return scheme + ":WORDS" }
func (reporting) Parse(c store.Config) (store.Config, error) { return c, nil }
func (reporting) Redact(uri string) string                   { return uri }
func (reporting) Open(_ context.Context, c store.Config) (store.Store, error) {
	return inspected{memory.New(), c.URI}, nil
}

func (s inspected) Inspect(ctx context.Context) (store.Inspection, error) {
	durable := !strings.Contains(s.uri, "setting")
	return store.Inspection{Settings: []store.Setting{{Name: "durable", Value: "maybe", Want: "yes", Holds: durable}}},
		ctx.Err()
}

func (s inspected) Problems() []store.Problem {
	var all []store.Problem
	for _, reason := range []string{"StorePolled", "StoreNotDurable"} {
		if strings.Contains(s.uri, reason) {
			all = append(all, store.Problem{Reason: reason, Message: "so it is"})
		}
	}
	return all
}

// Only a promise that is not kept is exit code 1, and what was found is printed all the same.
func TestStoreCheckSaysWhatIsMissing(t *testing.T) {
	for _, tt := range []struct {
		uri, says, saysNot string
		code               int
	}{
		{"reporting:nothing", "ok: nothing is missing", "worth knowing", 0},
		{"reporting:StorePolled", "worth knowing:\n  StorePolled: so it is", "missing for the promises:", 0},
		{"reporting:StoreNotDurable", "missing for the promises:\n  StoreNotDurable: so it is", "ok:", cli.CodeNo},
		{"reporting:setting", "StoreSetting: durable is maybe, the promises need yes", "ok:", cli.CodeNo},
	} {
		stdout, stderr, code := execute(t, "store", "check", tt.uri)
		if code != tt.code || !strings.Contains(stdout, tt.says) || strings.Contains(stdout, tt.saysNot) ||
			stderr != "" {
			t.Errorf("%s: code %d, want %d and %q\n%s%s", tt.uri, code, tt.code, tt.says, stdout, stderr)
		}
		stdout, stderr, code = execute(t, "store", "check", tt.uri, "-o", "json")
		var got storecheck.Result
		if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != tt.code || got.Holds != (tt.code == 0) {
			t.Errorf("%s: code %d, holds %t, %v\n%s%s", tt.uri, code, got.Holds, err, stdout, stderr)
		}
	}
}

// Without a replica the locks of programs are read from the store.
func TestGetLocksOfAStore(t *testing.T) {
	uri := "sqlite:" + filepath.Join(t.TempDir(), "a.db")
	locks, err := mutex.Open(t.Context(), uri, func(c *elect.Config) {
		c.Member.Instance, c.Logger = "web-1", logr.Discard()
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := locks.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	held, err := locks.Mutex("reports/monthly").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	config := writeConfig(t, "version: 1\nstore: {uri: \""+uri+"\"}\n"+
		"groups: [{name: g, tasks: [{name: a, exec: {command: [date]}}]}]\n")
	stdout, stderr, code := execute(t, "get", "locks", "reports/monthly", "-o", "json", "--config", config)
	var lock api.Lock
	if code != 0 || json.Unmarshal([]byte(stdout), &lock) != nil || lock.Kind != api.LockMutex ||
		len(lock.Holders) != 1 ||
		lock.Instance != "web-1" || lock.FencingToken != held.Token() || lock.OwnedSince.IsZero() {
		t.Errorf("code %d\n%s%s", code, stdout, stderr)
	}
	if stdout, _, code := execute(t, "get", "instances", "-o", "name", "--config", config); code != 0 || stdout != "" {
		t.Errorf("a program that only locks is an instance: code %d, %q", code, stdout)
	}
	if err := held.Unlock(t.Context()); err != nil {
		t.Error(err)
	}
}
