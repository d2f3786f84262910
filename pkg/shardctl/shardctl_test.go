//go:build unix

package shardctl_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/shardctl"
	"github.com/shardctl/shardctl/pkg/tasks"
	"github.com/shardctl/shardctl/test/testprocess"
)

// Variables of the environment that have this test's binary be a program of one's own.
const (
	envProgram = "SHARDCTL_TEST_PROGRAM" // good, or what is wrong with it
	envNotes   = "SHARDCTL_TEST_NOTES"   // a directory in which each run leaves a file
)

func TestMain(m *testing.M) {
	switch os.Getenv(envProgram) {
	case "":
		os.Exit(testprocess.Main(m))
	case "good":
		shardctl.Main(functions())
	case "twice":
		f := functions()
		f.Messages = map[string]shardctl.Handler{"report": save}
		shardctl.Main(f)
	case "nil":
		shardctl.Main(shardctl.Functions{Lists: map[string]shardctl.Lister{"regions": nil}})
	}
}

func functions() shardctl.Functions {
	return shardctl.Functions{
		Tasks: map[string]tasks.Callback{"report": func(_ context.Context, run tasks.Run) error {
			note := fmt.Sprintf("token %d, %s", run.Token, run.Labels["in"])
			return os.WriteFile(filepath.Join(os.Getenv(envNotes), run.Name), []byte(note), 0o600)
		}},
		Messages: map[string]shardctl.Handler{"order": save},
		Lists: map[string]shardctl.Lister{"regions": func(context.Context) ([]shardctl.Item, error) {
			return []shardctl.Item{{Name: "eu", Labels: map[string]string{"in": "Europe"}}, {Name: "us"}}, nil
		}},
	}
}

func save(context.Context, shardctl.Message, tasks.Run) error {
	return errors.New("no message comes in this test")
}

// own is a program of one's own.
func own(t *testing.T, kind, notes string, args ...string) (cmd *exec.Cmd, printed *bytes.Buffer) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	printed = &bytes.Buffer{}
	cmd = exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append(os.Environ(), envProgram+"="+kind, envNotes+"="+notes)
	cmd.Stdout, cmd.Stderr = printed, printed
	return cmd, printed
}

// run returns what a program of one's own printed and its exit code.
func run(t *testing.T, kind, notes string, args ...string) (string, int) {
	t.Helper()
	cmd, printed := own(t, kind, notes, args...)
	err := cmd.Run()
	if failed := (*exec.ExitError)(nil); err != nil && !errors.As(err, &failed) {
		t.Fatal(err)
	}
	return printed.String(), cmd.ProcessState.ExitCode()
}

func config(t *testing.T, dir, callback string) string {
	t.Helper()
	path := filepath.Join(dir, "config.yaml")
	text := fmt.Sprintf(`version: 1
instance: a
store: {uri: "sqlite:%s/s.db"}
admin: {listen: "127.0.0.1:0"}
server: {listen: "127.0.0.1:0"}
lease: {duration: 2s}
groups:
  - name: reports
    tasks:
      - {name: total, callback: %s, restart: never}
`, dir, callback)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A replica of such a program, guard and all, runs the function that its configuration names.
func TestRunsFunctionsThatYAMLNames(t *testing.T) {
	dir := t.TempDir()
	out, code := run(t, "good", dir, "run", "--until-done", "--config", config(t, dir, "report"))
	note, err := os.ReadFile(filepath.Join(dir, "total"))
	if code != 0 || err != nil || !strings.HasPrefix(string(note), "token ") {
		t.Errorf("exit code %d, note %q, %v; it printed:\n%s", code, note, err, out)
	}
}

func TestRefusesNamesItDoesNotHave(t *testing.T) {
	dir := t.TempDir()
	out, code := run(t, "good", dir, "validate", config(t, dir, "rapport"))
	if code != 2 || !strings.Contains(out, "one of those registered in Go: order, report") {
		t.Errorf("exit code %d, printed:\n%s", code, out)
	}
}

func TestFunctionsThatCannotBeRegistered(t *testing.T) {
	for kind, want := range map[string]string{
		"twice": `error: register callback "report": the name is taken`,
		"nil":   `error: register lister "regions": it is nil`,
	} {
		if out, code := run(t, kind, t.TempDir(), "version"); code != 78 || strings.TrimSpace(out) != want {
			t.Errorf("%s: exit code %d, printed %q, want 78 and %q", kind, code, out, want)
		}
	}
}

// What a function lists becomes tasks: the names, the labels.
func TestListsWhatIsThere(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "config.yaml")
	text := fmt.Sprintf(`version: 1
instance: a
store: {uri: "sqlite:%s/s.db"}
admin: {listen: "127.0.0.1:0"}
server: {listen: "127.0.0.1:0"}
lease: {duration: 2s}
groups:
  - name: reports
    discover: {callback: regions}
    template: {callback: report, restart: never}
`, dir)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd, printed := own(t, "good", dir, "run", "--config", path)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for !written(dir, "eu") || !written(dir, "us") {
		select {
		case err := <-ended:
			t.Fatalf("%v; it printed:\n%s", err, printed)
		case <-time.After(10 * time.Millisecond):
		}
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	eu, err := os.ReadFile(filepath.Join(dir, "eu"))
	if ended := <-ended; ended != nil || err != nil || !strings.HasSuffix(string(eu), ", Europe") {
		t.Errorf("%v, %v, eu has %q; it printed:\n%s", ended, err, eu, printed)
	}
}

// written reports whether a run has left its note.
func written(dir, name string) bool {
	note, err := os.Stat(filepath.Join(dir, name))
	return err == nil && note.Size() > 0
}
