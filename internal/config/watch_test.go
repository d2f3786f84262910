package config

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"

	"github.com/shardctl/shardctl/internal/decode"
	"github.com/shardctl/shardctl/internal/settings"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// applied is one call of Watcher.Applied.
type applied struct {
	settings *Config
	restart  []string
}

type watching struct {
	*Watcher
	applied chan applied
	refused chan error
}

// watchOver runs a watcher until the test ends.
func watchOver(t *testing.T, path string) watching {
	t.Helper()
	start, err := Load([]string{path}, testOptions)
	if err != nil {
		t.Fatal(err)
	}
	w := watching{NewWatcher([]string{path}, testOptions), make(chan applied, 100), make(chan error, 100)}
	w.Applied = func(s *Config, restart []string) { w.applied <- applied{s, restart} }
	w.Refused = func(err error) { w.refused <- err }
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- w.Run(ctx, start) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Run: %v", err)
		}
	})
	return w
}

func next[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(time.Minute):
		t.Fatal("the watcher did not notice")
		panic("unreachable")
	}
}

func taskNamesOf(s *Config) []string {
	var names []string
	for _, g := range s.Groups {
		for _, task := range g.Tasks {
			names = append(names, task.Name)
		}
	}
	return names
}

func (w watching) expect(t *testing.T, names ...string) applied {
	t.Helper()
	got := next(t, w.applied)
	if !slices.Equal(taskNamesOf(got.settings), names) {
		t.Fatalf("applied %v, want %v", taskNamesOf(got.settings), names)
	}
	return got
}

func one(name string) string { return group("      - {name: " + name + ", callback: f}\n") }

// put puts a file in its place as editors do: whole, in the place of the one before.
func put(t *testing.T, path, text string) {
	t.Helper()
	draft := filepath.Join(filepath.Dir(path), ".draft")
	write(t, draft, text)
	if err := os.Rename(draft, path); err != nil {
		t.Fatal(err)
	}
}

func TestWatchFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "config.yaml")
	put(t, path, one("a"))
	w := watchOver(t, path)

	put(t, path, one("b"))
	w.expect(t, "b")

	put(t, path, one("b")+"cap: 3\n")
	var errs decode.Errors
	if err := next(t, w.refused); !errors.As(err, &errs) || errs[0].Field != "cap" {
		t.Fatalf("refused with %v", err)
	}

	put(t, path, one("b"))
	w.expect(t, "b") // as before, and good again

	put(t, path, one("c"))
	w.expect(t, "c")
}

func TestWatchFileWrittenInPlace(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "config.yaml")
	put(t, path, one("a"))
	w := watchOver(t, path)
	write(t, path, one("b")) // truncated first
	w.expect(t, "b")
	if len(w.refused) > 0 {
		t.Errorf("refused half-way: %v", <-w.refused)
	}
}

// reloading is a reloader with what it applied and refused.
func reloading(t *testing.T, opts Options, paths ...string) (r *reloader, said func() string) {
	t.Helper()
	start, err := Load(paths, opts)
	if err != nil {
		t.Fatal(err)
	}
	w := NewWatcher(paths, opts)
	var list []string
	w.Applied = func(s *Config, _ []string) { list = append(list, fmt.Sprint("applied ", taskNamesOf(s))) }
	w.Refused = func(error) { list = append(list, "refused") }
	return &reloader{w: w, start: start, seen: start.seen}, func() string {
		text := strings.Join(list, ", ")
		list = nil
		return text
	}
}

// Each beginning of a list of tasks is a configuration. What is still being written is not one yet.
func TestOnlyWhatStaysTheSameIsApplied(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	task := func(name string) string { return "      - {name: " + name + ", callback: f}\n" }
	write(t, path, group(task("a")+task("b")+task("c")))
	r, said := reloading(t, testOptions, path)
	for _, step := range []struct {
		text  string
		asked bool
		again bool
		said  string
	}{
		{text: ""}, // as it was
		{text: group(task("a")), again: true},
		{text: group(task("a") + task("b")), again: true},
		{text: "groups: [", again: true},
		{text: group(task("a") + task("b") + task("d")), again: true},
		{said: "applied [a b d]"},
		{},
		{asked: true, said: "applied [a b d]"},
		{text: group(task("e")), asked: true, again: true}, // a signal does not say that the file is whole
		{said: "applied [e]"},
		{text: "groups: [", again: true},
		{said: "refused"},
		{text: group(task("e")), again: true},
		{said: "applied [e]"}, // as before, and good again
		{text: group(task("f")), again: true},
		{text: group(task("e"))}, // put back before it counted
		{text: group(task("f")), again: true},
		{said: "applied [f]"},
	} {
		if step.text != "" {
			write(t, path, step.text)
		}
		r.asked = r.asked || step.asked
		again := r.look()
		if got := said(); got != step.said || again != step.again {
			t.Errorf("%+v: %q, another look %v", step, got, again)
		}
	}
}

// A file that changes between the look and the load is not the one that was looked at.
func TestChangeDuringTheLoadIsNotApplied(t *testing.T) {
	dir := t.TempDir()
	first, second := filepath.Join(dir, "a.yaml"), filepath.Join(dir, "b.yaml")
	write(t, first, one("a")+"zone: $(ZONE)\n")
	write(t, second, "maxTasks: 1\n")
	meanwhile := ""
	opts := testOptions
	opts.Env = func(string) (string, bool) { // between the two files
		if meanwhile != "" {
			write(t, second, meanwhile)
		}
		return "z", true
	}
	r, said := reloading(t, opts, first, second)
	write(t, first, one("b")+"zone: $(ZONE)\n")
	if !r.look() {
		t.Fatal("no other look is wanted")
	}
	meanwhile = "maxTasks: 2\n"
	if again, got := r.look(), said(); !again || got != "" {
		t.Errorf("%q, another look %v; want it", got, again)
	}
	if again, got := r.look(), said(); again || got != "applied [b]" {
		t.Errorf("%q, another look %v", got, again)
	}
}

func TestWatchReportsWhatNeedsARestart(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "config.yaml")
	put(t, path, one("a"))
	w := watchOver(t, path)
	put(t, path, one("b")+"revision: 7\nlease: {duration: 8s}\nzone: z\n")
	got := w.expect(t, "b")
	if want := []string{"zone", "lease.duration", "lease.renewDeadline"}; !slices.Equal(got.restart, want) {
		t.Errorf("restart for %v, want %v", got.restart, want)
	}
	if s := got.settings; s.Revision != 7 || s.Lease.Duration != 20*time.Second || s.Zone != "" {
		t.Errorf(
			"applied revision %d, lease %s, zone %q: only the task lists change", s.Revision, s.Lease.Duration, s.Zone,
		)
	}
	// Still so after another change: the process has what it was started with.
	put(t, path, one("c")+"lease: {duration: 8s}\n")
	if got := w.expect(t, "c"); !slices.Contains(got.restart, "lease.duration") {
		t.Errorf("restart for %v, want lease.duration", got.restart)
	}
	put(t, path, one("d"))
	if got := w.expect(t, "d"); len(got.restart) > 0 {
		t.Errorf("restart for %v, want none", got.restart)
	}
}

func TestWatchDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put(t, filepath.Join(dir, "a.yaml"), one("a"))
	w := watchOver(t, dir)
	put(t, filepath.Join(dir, "b.yml"), "groups: [{name: h, tasks: [{name: b, callback: f}]}]\n")
	w.expect(t, "a", "b")
	put(t, filepath.Join(dir, "notes.txt"), "not looked at")
	if err := os.Remove(filepath.Join(dir, "b.yml")); err != nil {
		t.Fatal(err)
	}
	w.expect(t, "a")
}

// TestWatchConfigMap swaps files as the kubelet does: they are symlinks through ..data, and that is put in place again.
func TestWatchConfigMap(t *testing.T) {
	for _, what := range []string{"file", "directory"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			swap := func(version, text string) {
				t.Helper()
				if err := os.Mkdir(filepath.Join(dir, version), 0o750); err != nil {
					t.Fatal(err)
				}
				put(t, filepath.Join(dir, version, "config.yaml"), text)
				if err := os.Symlink(version, filepath.Join(dir, "..data_tmp")); err != nil {
					t.Fatal(err)
				}
				if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
					t.Fatal(err)
				}
			}
			swap("..1", one("a"))
			path := filepath.Join(dir, "config.yaml")
			if err := os.Symlink(filepath.Join("..data", "config.yaml"), path); err != nil {
				t.Fatal(err)
			}
			if what == "directory" {
				path = dir
			}
			w := watchOver(t, path)
			swap("..2", one("b"))
			w.expect(t, "b")
			if err := os.RemoveAll(filepath.Join(dir, "..1")); err != nil {
				t.Fatal(err)
			}
			swap("..3", one("c"))
			w.expect(t, "c")
		})
	}
}

func TestWatchFollowsSymlinkedFile(t *testing.T) {
	t.Parallel()
	target, link := t.TempDir(), filepath.Join(t.TempDir(), "config.yaml")
	put(t, filepath.Join(target, "settings.yaml"), one("a"))
	if err := os.Symlink(filepath.Join(target, "settings.yaml"), link); err != nil {
		t.Fatal(err)
	}
	w := watchOver(t, link)
	put(t, filepath.Join(target, "settings.yaml"), one("b"))
	w.expect(t, "b")
}

func TestTriggerLoadsUnchanged(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "config.yaml")
	put(t, path, one("a"))
	w := watchOver(t, path)
	w.Trigger()
	w.expect(t, "a")
}

func TestChangeBeforeRunIsNoticed(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "config.yaml")
	put(t, path, one("a"))
	start, err := Load([]string{path}, testOptions)
	if err != nil {
		t.Fatal(err)
	}
	put(t, path, one("b"))
	got := make(chan *Config, 10)
	w := NewWatcher([]string{path}, testOptions)
	w.Applied = func(s *Config, _ []string) { got <- s }
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- w.Run(ctx, start) }()
	if s := next(t, got); !slices.Equal(taskNamesOf(s), []string{"b"}) {
		t.Errorf("applied %v, want b", taskNamesOf(s))
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Run: %v", err)
	}
}

func TestDatabaseBesideIsNotAConfiguration(t *testing.T) {
	w := watchedBy([]string{"dir/app.conf"}, filepath.EvalSymlinks)
	for name, want := range map[string]bool{
		"dir/app.conf": true, "dir/other.yaml": true, "dir/..data": true, "dir/shardctl.db": false,
		"dir/shardctl.db-wal": false,
	} {
		if got := w.concerns(name); got != want {
			t.Errorf("%s concerns the configuration: %v, want %v", name, got, want)
		}
	}
}

// A log or a database in the directory of the configuration is written to thousands of times a second. An event of
// theirs must not cost a look at the files, nor at the links that lead to them.
func TestEventsOfOtherFilesFollowNoLinks(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "config.yaml")
	put(t, path, one("a"))
	start, err := Load([]string{path}, testOptions)
	if err != nil {
		t.Fatal(err)
	}
	var followed atomic.Int64
	w := NewWatcher([]string{path}, testOptions)
	w.links = func(path string) (string, error) {
		followed.Add(1)
		return filepath.EvalSymlinks(path)
	}
	got := make(chan *Config, 10)
	w.Applied = func(s *Config, _ []string) { got <- s }
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- w.Run(ctx, start) }()
	w.Trigger()
	next(t, got) // it watches
	log, err := os.Create(filepath.Join(filepath.Dir(path), "shardctl.db-wal"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	const writes = 5000
	for i := range writes {
		if _, err := log.WriteAt([]byte{byte(i)}, 0); err != nil {
			t.Fatal(err)
		}
		if err := log.Truncate(int64(i % 2)); err != nil { // another kind of change: equal ones may come as one
			t.Fatal(err)
		}
	}
	put(t, path, one("b"))
	if s := next(t, got); !slices.Equal(taskNamesOf(s), []string{"b"}) {
		t.Errorf("applied %v, want b", taskNamesOf(s))
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Run: %v", err)
	}
	if n := followed.Load(); n > 100 {
		t.Errorf("links were followed %d times for %d writes to another file", n, 2*writes)
	}
}

func TestPace(t *testing.T) {
	start := time.Now()
	at := start.Add
	var p pace
	if d := p.event(at(0)); d != settle {
		t.Errorf("after the first event: %s, want %s", d, settle)
	}
	if d := p.event(at(80 * time.Millisecond)); d != settle {
		t.Errorf("after another one: %s, want %s of quiet", d, settle)
	}
	if d := p.event(at(patience - 30*time.Millisecond)); d != 30*time.Millisecond {
		t.Errorf("with events all the time: %s, want a look after %s", d, patience)
	}
	p.looked(at(patience))
	if d := p.event(at(patience + time.Millisecond)); d != lookEvery-time.Millisecond {
		t.Errorf("right after a look: %s, want no other within %s", d, lookEvery)
	}
}

// TestChangedNamesFields changes fields in turn.
func TestChangedNamesFields(t *testing.T) {
	before := load(t, minimal)
	for text, want := range map[string]string{
		"cluster: b":                  "cluster",
		"instance: b":                 "instance",
		"zone: b":                     "zone",
		"labels: {a: b}":              "labels",
		"maxTasks: 1":                 "maxTasks",
		"rollout: b":                  "rollout",
		"pod: {container: a, dir: b}": "pod.container",
		"shutdown: {timeout: 1s}":     "shutdown.timeout",
		"server: {listen: ':81'}":     "server.listen",
		"admin: {tokensFile: b}":      "admin.tokensFile",
		"metrics: {perTask: true}":    "metrics.perTask",
		"log: {level: debug}":         "log.level",
		"rebalance: {maxMoves: 2}":    "rebalance.maxMoves",
		"lease: {renewDeadline: 9s}":  "lease.renewDeadline",
	} {
		if got := changed(before.Settings, load(t, minimal+text+"\n").Settings); len(got) == 0 || got[0] != want {
			t.Errorf("%s changes %v, want %s", text, got, want)
		}
	}
	if got := changed(before.Settings, load(t, one("a")+"revision: 3\n").Settings); len(got) > 0 {
		t.Errorf("the task lists change %v, want nothing", got)
	}
	other := load(t, "store: {uri: 'sqlite:b.db'}\n")
	if got := changed(before.Settings, other.Settings); !slices.Equal(got, []string{"store.uri"}) {
		t.Errorf("another store changes %v", got)
	}
}

// What is live is what a running replica goes on with after a reload.
func TestLiveSettingsAreTakenUp(t *testing.T) {
	before, after := new(settings.Settings), new(settings.Settings)
	for _, f := range settings.FieldsOf(after, nil) {
		if to := reflect.ValueOf(f.Value).FieldByName("To"); f.Live && to.IsValid() {
			to.Elem().SetInt(7)
		}
	}
	after.Groups = []settings.Group{{Name: "g"}}
	merged := (&Config{Settings: before}).withLists(&Config{Settings: after})
	if !reflect.DeepEqual(merged.Settings, after) {
		t.Errorf("got %+v, want %+v", merged.Settings, after)
	}
}

// Of a store whose URI comes from files, who logs in is renewed while a replica runs. All else waits for a restart.
func TestRenewedLoginNeedsNoRestart(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "uri")
	text := "store: {uri: '$(file:" + file + ")'}\n"
	write(t, file, "mongodb://app:one@h/d?w=1\n")
	before := load(t, text)
	for uri, want := range map[string][]string{
		"mongodb://app:two@h/d?w=1":      nil,
		"mongodb://v-app-2:two@h/d?w=1":  nil,
		"mongodb://app:two@i/d?w=1":      {"store.uri"},
		"mongodb://app:two@h/e?w=1":      {"store.uri", "store.database"},
		"mongodb://app:two@h/d?w=2":      {"store.uri"},
		"mongodb+srv://app:two@h/d?w=1":  {"store.uri"},
		"mongodb://app:one@h:27018/d?w=": {"store.uri"},
	} {
		write(t, file, uri)
		if got := changed(before.Settings, load(t, text).Settings); !slices.Equal(got, want) {
			t.Errorf("renewed as %s: %v wait for a restart, want %v", uri, got, want)
		}
		if got, err := before.StoreConfig(logr.Discard()).Renew(); got != uri || err != nil {
			t.Errorf("renewed as %s: got %s, %v", uri, got, err)
		}
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if got, err := before.StoreConfig(logr.Discard()).Renew(); err == nil {
		t.Errorf("without its file the URI is %s", got)
	}
	// One that is written in the configuration does not change while a replica runs.
	plain := load(t, "store: {uri: 'mongodb://app:one@h/d'}\n")
	if plain.Store.Renew != nil {
		t.Error("a URI without files is renewed")
	}
	other := load(t, "store: {uri: 'mongodb://app:two@h/d'}\n")
	if got := changed(plain.Settings, other.Settings); !slices.Equal(got, []string{"store.uri"}) {
		t.Errorf("a password in the configuration: %v wait for a restart", got)
	}
}
