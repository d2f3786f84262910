package config

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/runners/callback"
	"github.com/shardctl/shardctl/internal/runners/exec"
	"github.com/shardctl/shardctl/internal/runners/httptask"
	"github.com/shardctl/shardctl/internal/settings"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// load loads texts as files a.yaml, b.yaml, … of a directory of their own.
func load(t *testing.T, texts ...string) *Config {
	t.Helper()
	s, err := tryLoad(t, texts...)
	if err != nil {
		t.Fatalf("Load:\n%v", err)
	}
	return s
}

func tryLoad(t *testing.T, texts ...string) (*Config, error) {
	t.Helper()
	dir := t.TempDir()
	for i, text := range texts {
		write(t, filepath.Join(dir, string(rune('a'+i))+".yaml"), text)
	}
	return Load([]string{dir}, testOptions)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

const minimal = "store: {uri: 'sqlite:a.db'}\n"

// group is a configuration with one group g of the tasks given.
func group(tasks string) string {
	return minimal + "groups:\n  - name: g\n    tasks:\n" + tasks
}

func TestDefaults(t *testing.T) {
	s := load(t, minimal)
	if s.Cluster != "default" || s.Instance == "" || s.Zone != "" || s.MaxTasks != 0 || s.Revision != 0 {
		t.Errorf("got %+v", s)
	}
	if want := (settings.Lease{Duration: 20 * time.Second, RenewDeadline: 15 * time.Second}); s.Lease != want {
		t.Errorf("lease %+v, want %+v", s.Lease, want)
	}
	if want := (settings.Rebalance{Settle: 10 * time.Second, OnRestart: settings.OnRestartMove}); s.Rebalance != want {
		t.Errorf("rebalance %+v, want %+v", s.Rebalance, want)
	}
	if s.Shutdown.Timeout != 25*time.Second || s.Metrics.PerTask {
		t.Errorf("got %+v", s)
	}
	server := settings.Server{Listen: ":8080", Advertise: "10.1.2.3:8080", Logs: settings.ServeLogsAuto}
	if !reflect.DeepEqual(s.Server, server) {
		t.Errorf("server %+v, want %+v, by $(POD_IP)", s.Server, server)
	}
	if want := (settings.Admin{Listen: "127.0.0.1:8081"}); s.Admin != want {
		t.Errorf("admin %+v, want %+v", s.Admin, want)
	}
	if want := (settings.Log{Level: "info", Format: "json"}); s.Log != want {
		t.Errorf("log %+v, want %+v", s.Log, want)
	}
}

func TestVariablesTakeTheFieldsType(t *testing.T) {
	s := load(t, `
store: {uri: "mongodb://u:$(PASSWORD)@h1:27017,[::1]:27018/orders?w=1"}
zone: $(NOT_SET:-eu-1)
labels: {a: "$(TWENTY)", b: $(EMPTY), c: no}
maxTasks: $(TWENTY)
revision: "$(TWENTY)"
lease: {duration: $(LONG)}
metrics: {perTask: $(YES)}
server: {route: $(YES)}
groups:
  - name: g
    cap: $(NOT_SET:-)
    defaults: {callback: f}
    tasks:
      - name: t-{1..$(LAST)}
        weight: $(TWENTY)
        every: $(LONG)
        labels: {n: $(SHARDCTL_TASK), i: "$(SHARDCTL_INDEX)", d: $(NO:-x)}
`)
	if s.Store.URI != "mongodb://u:hunter2@h1:27017,[::1]:27018/orders?w=1" || s.Store.Database != "orders" {
		t.Errorf("store %+v", s.Store)
	}
	if s.Zone != "eu-1" || s.MaxTasks != 20 || s.Revision != 20 || s.Lease.Duration != time.Hour ||
		!s.Metrics.PerTask || !s.Server.Route {
		t.Errorf("got %+v", s)
	}
	if want := map[string]string{"a": "20", "b": "", "c": "no"}; !maps.Equal(s.Labels, want) {
		t.Errorf("labels %v, want %v", s.Labels, want)
	}
	g := s.Groups[0]
	if g.Cap != nil {
		t.Errorf("cap %d, want none: the variable is empty", *g.Cap)
	}
	if len(g.Tasks) != 3 {
		t.Fatalf("%d tasks, want 3", len(g.Tasks))
	}
	last := g.Tasks[2]
	if last.Weight != 20 || last.Every != time.Hour {
		t.Errorf("got %+v", last)
	}
	if want := map[string]string{"n": "t-3", "i": "2", "d": "x"}; !maps.Equal(last.Labels, want) {
		t.Errorf("labels %v, want %v", last.Labels, want)
	}
}

func TestWhatComesInIsNotExpandedAgain(t *testing.T) {
	s := load(t, group(`
      - {name: a, callback: "$(DOLLAR)$(SHARDCTL_TASK)$$(X)"}
      - {name: b, callback: "$(DOLLAR)$$(X)"}
`))
	if got, want := string(s.Groups[0].Tasks[0].Runner.(callback.Runner)), "$(WORD)a$(X)"; got != want {
		t.Errorf("callback %q, want %q", got, want)
	}
	if got, want := string(s.Groups[0].Tasks[1].Runner.(callback.Runner)), "$(WORD)$(X)"; got != want {
		t.Errorf("callback %q, want %q", got, want)
	}
}

func TestTextIsTakenAsWritten(t *testing.T) {
	s := load(t, group(`
      - name: 007
        labels: {a: 1.10, b: no, c: 0x1F, e: , f: 2026-01-01}
        exec:
          command: [1.0, yes, null, 1e3, 0o7]
          env: {A: 1_000, B: , C: .inf, x-kept: on}
`))
	task := s.Groups[0].Tasks[0]
	if task.Name != "007" {
		t.Errorf("name %q, want 007", task.Name)
	}
	if want := []string{"1.0", "yes", "null", "1e3", "0o7"}; !slices.Equal(task.Runner.(exec.Runner).Command, want) {
		t.Errorf("command %q, want %q", task.Runner.(exec.Runner).Command, want)
	}
	if want := map[string]string{"A": "1_000", "B": "", "C": ".inf", "x-kept": "on"}; !maps.Equal(
		task.Runner.(exec.Runner).Env, want,
	) {
		t.Errorf("env %q, want %q", task.Runner.(exec.Runner).Env, want)
	}
	want := map[string]string{"a": "1.10", "b": "no", "c": "0x1F", "e": "", "f": "2026-01-01"}
	if !maps.Equal(task.Labels, want) {
		t.Errorf("labels %q, want %q", task.Labels, want)
	}
}

func TestRunnersStayAsWritten(t *testing.T) {
	s := load(t, group(`
      - name: t-{a,b}
        exec:
          command: [run, $(TWENTY), "$(SHARDCTL_INDEX)", $$(X)]
          env: {SECRET: $(file:/not/there)}
          dir: /srv/$(SHARDCTL_TASK)
          ready: {delay: $(LONG)}
      - name: h
        http: {url: "http://$(WORD)/", body: $(file:/not/there), timeout: 1s}
`))
	e := s.Groups[0].Tasks[1].Runner.(exec.Runner)
	if want := []string{"run", "$(TWENTY)", "$(SHARDCTL_INDEX)", "$$(X)"}; !slices.Equal(e.Command, want) {
		t.Errorf("command %q, want %q", e.Command, want)
	}
	if e.Env["SECRET"] != "$(file:/not/there)" || e.Dir != "/srv/$(SHARDCTL_TASK)" || e.Ready.Delay != time.Hour {
		t.Errorf("got %+v", e)
	}
	if h := s.Groups[0].Tasks[2].Runner.(httptask.Runner); h.URL != "http://$(WORD)/" ||
		h.Body != "$(file:/not/there)" {
		t.Errorf("got %+v", h)
	}
}

func TestGroupDefaults(t *testing.T) {
	s := load(t, minimal+`
groups:
  - name: g
    defaults:
      labels: {team: core, tier: gold}
      stop: {timeout: 30s}
      restart: on-failure
      backoff: {initial: 2s}
      retry: {attempts: 5}
      timeZone: Europe/Berlin
      exec: {command: [a, b], env: {A: "1", B: "2"}}
    tasks:
      - name: keeps
        labels: {tier: iron}
        stop: {signal: SIGINT}
        exec: {command: [c], env: {B: "3"}}
      - {name: ticks, schedule: "@daily"}
      - {name: every, every: 1m}
      - {name: calls, http: {url: "http://a"}}
`)
	made := s.Groups[0].Tasks
	keeps, ticks, every, calls := made[0], made[1], made[2], made[3]
	if want := map[string]string{"team": "core", "tier": "iron"}; !maps.Equal(keeps.Labels, want) {
		t.Errorf("labels %v, want %v: maps merge", keeps.Labels, want)
	}
	if want := (tasks.Stop{Signal: "SIGINT", Timeout: 30 * time.Second}); keeps.Stop != want {
		t.Errorf("stop %v, want %v", keeps.Stop, want)
	}
	if want := []string{"c"}; !slices.Equal(keeps.Runner.(exec.Runner).Command, want) {
		t.Errorf("command %v, want %v: lists replace", keeps.Runner.(exec.Runner).Command, want)
	}
	if want := map[string]string{"A": "1", "B": "3"}; !maps.Equal(keeps.Runner.(exec.Runner).Env, want) {
		t.Errorf("env %v, want %v", keeps.Runner.(exec.Runner).Env, want)
	}
	if keeps.Restart != tasks.RestartOnFailure || keeps.Backoff.Initial != 2*time.Second || keeps.Retry.Attempts != 1 {
		t.Errorf("got %+v", keeps)
	}
	if ticks.Restart != tasks.RestartAlways || ticks.Retry.Attempts != 5 || ticks.TimeZone != "Europe/Berlin" {
		t.Errorf("got %+v: restart does not go with a schedule, retry does", ticks)
	}
	if every.TimeZone != "UTC" || every.Retry.Attempts != 5 {
		t.Errorf("got %+v", every)
	}
	if h, ok := calls.Runner.(httptask.Runner); !ok || h.Timeout != 0 {
		t.Errorf(
			"got %+v: its own runner takes the place of the default one, its timeout goes by the running lease", calls,
		)
	}
}

// A replica keeps its lease when it reads another one, and its tasks run on.
func TestLeaseChangesNoTask(t *testing.T) {
	const lists = "groups:\n  - {name: g, tasks: [{name: ping, http: {url: 'http://h/'}}, {name: run, exec: " +
		"{command: [a]}}]}\n"
	for _, lease := range []string{"1s", "80s", "1h"} {
		before, after := load(t, minimal+lists), load(t, minimal+"lease: {duration: "+lease+"}\n"+lists)
		for i, old := range before.Groups[0].Tasks {
			if next := after.Groups[0].Tasks[i]; !reflect.DeepEqual(old, next) || next.NeedsRestart(old) {
				t.Errorf("with a lease of %s %s changes from %+v to %+v", lease, old.Name, old, next)
			}
		}
	}
}

func TestSeveralFilesJoin(t *testing.T) {
	s := load(t, `
version: 1
store: {uri: "sqlite:a.db"}
groups:
  - name: g
    defaults: {callback: f, weight: 3}
    tasks: [{name: a}]
  - name: h
`, `
version: 1
lease: {duration: 8s}
groups:
  - name: g
    cap: 0
    instances: {selector: {pool: gpu}}
    tasks: [{name: b}]
`)
	if len(s.Files) != 2 || s.Lease.Duration != 8*time.Second || s.Tasks() != 2 || len(s.Groups) != 2 {
		t.Fatalf("got %+v", s)
	}
	g := s.Groups[0]
	if g.Cap == nil || *g.Cap != 0 || g.Selector["pool"] != "gpu" {
		t.Errorf("got %+v, want what the second file says", g)
	}
	if b := g.Tasks[1]; b.Name != "b" || b.Runner != tasks.Runner(callback.Runner("f")) || b.Weight != 3 {
		t.Errorf("got %+v, want the first file's defaults", b)
	}
}

func TestFilesAreTakenOnce(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "b.yml"), "cluster: b\n")
	write(t, filepath.Join(dir, "a.yaml"), minimal)
	write(t, filepath.Join(dir, "c.yaml.bak"), "malformed")
	if err := os.Mkdir(filepath.Join(dir, "d.yaml"), 0o750); err != nil {
		t.Fatal(err)
	}
	s, err := Load([]string{filepath.Join(dir, "b.yml"), dir, dir + "/./a.yaml"}, testOptions)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{filepath.Join(dir, "b.yml"), filepath.Join(dir, "a.yaml")}; !slices.Equal(s.Files, want) {
		t.Errorf("files %v, want %v", s.Files, want)
	}
}

func TestAnchorsAndKeysForPeople(t *testing.T) {
	s := load(t, minimal+`
x-anything: [1, {2: 3}]
x-base: &base
  x-note: ignored
  exec: &run {command: [a]}
  weight: 2
x-twice: &twice {weight: 5, labels: {x-label: kept}}
groups:
  - name: g
    x-why: because
    tasks:
      - {name: a, <<: *base, weight: 7}
      - {name: b, exec: *run, x-note: {}}
      - {name: c, <<: [*base, *twice]}
`)
	if got := s.Groups[0].Tasks; got[0].Weight != 7 || got[0].Runner.(exec.Runner).Command[0] != "a" ||
		got[1].Runner.(exec.Runner).Command[0] != "a" ||
		got[2].Weight != 2 || got[2].Labels["x-label"] != "kept" {
		t.Errorf("got %+v", got)
	}
}

func TestEmptyFieldsAreLeftOut(t *testing.T) {
	s := load(t, minimal+"lease:\nlabels: ~\nmaxTasks:\nlog: {level: }\ngroups:\n  - name: g\n    cap:\n    "+
		"defaults:\n    tasks:\n")
	if s.Lease.Duration != 20*time.Second || s.Log.Level != "info" || s.Groups[0].Cap != nil {
		t.Errorf("got %+v", s)
	}
}

func TestNoPath(t *testing.T) {
	if _, err := Load(nil, testOptions); err == nil || !strings.Contains(err.Error(), "--config") {
		t.Errorf("error %v, want one that names --config", err)
	}
}

func TestCallbacksMustBeRegistered(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.yaml")
	write(t, path, group("      - {name: a, callback: report}\n"))
	var some tasks.Registry
	if err := some.Register("clean", func(context.Context, tasks.Run) error { return nil }); err != nil {
		t.Fatal(err)
	}
	for want, callbacks := range map[string]*tasks.Registry{
		`is "report", but this program has no callbacks`:            {},
		`is "report", must be one of those registered in Go: clean`: &some,
	} {
		opts := testOptions
		opts.Callbacks = callbacks
		if _, err := Load([]string{path}, opts); err == nil ||
			!strings.Contains(err.Error(), "a.yaml:5:29: groups[0].tasks[0].callback: "+want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	if err := some.Register("report", func(context.Context, tasks.Run) error { return nil }); err != nil {
		t.Fatal(err)
	}
	opts := testOptions
	opts.Callbacks = &some
	if _, err := Load([]string{path}, opts); err != nil {
		t.Error(err)
	}
}

// TestFIFOIsRefused holds that a path that is neither a regular file nor a directory is refused instead of waited for.
func TestFIFOIsRefused(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "tasks.yaml")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Skip("no FIFOs here:", err)
	}
	for _, path := range []string{fifo, dir} {
		done := make(chan error, 1)
		go func() {
			_, err := Load([]string{path}, optionsOf(os.LookupEnv))
			done <- err
		}()
		select {
		case err := <-done:
			if want := fifo + ": is a FIFO, want a regular file or a directory"; err == nil ||
				!strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", path, err, want)
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("%s: Load waits for somebody to write into the FIFO", path)
		}
	}
}

// TestServerCAFile holds server.tls.caFile: read, shown, and refused where nothing is served over TLS.
func TestServerCAFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "c.yaml")
	load := func(tls string) (*Config, error) {
		text := "version: 1\nstore: {uri: \"sqlite:x.db\"}\nserver: {tls: " + tls + "}\ngroups: []\n"
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return Load([]string{path}, optionsOf(func(string) (string, bool) { return "", false }))
	}
	s, err := load("{certFile: c.pem, keyFile: k.pem, caFile: ca.pem}")
	if err != nil {
		t.Fatal(err)
	}
	if s.Server.TLS != (settings.TLS{CertFile: "c.pem", KeyFile: "k.pem", CAFile: "ca.pem"}) {
		t.Errorf("got %+v", s.Server.TLS)
	}
	if _, err := load("{caFile: ca.pem}"); err == nil ||
		!strings.Contains(err.Error(), "server.tls.caFile: needs certFile and keyFile") {
		t.Errorf("without a certificate: %v", err)
	}
}
