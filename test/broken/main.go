//go:build unix

// Command broken breaks each promise once and says which test notices, in which tier and after how long. README.md has
// the tiers.
//
//	go run ./test/broken -only P1,P6 -tier changed,direct
package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
)

const module = "github.com/shardctl/shardctl/"

// step is a tier: what it runs, and for how long at most.
type step struct {
	name  string
	limit time.Duration
	// suites are those that run beside the tests of `go test ./...`, as SHARDCTL_TEST lists them.
	suites string
	// of names the tiers whose packages are tested: those that depend on what the patch changes.
	of []string
	// args follow `go test` where the packages are always the same.
	args []string
}

// tiers are in order. What `go test ./...` runs comes first.
var tiers = []step{
	{name: "changed", limit: 10 * time.Minute, of: []string{"changed"}},
	{name: "direct", limit: 20 * time.Minute, of: []string{"direct"}},
	{name: "others", limit: 30 * time.Minute, of: []string{"others"}},
	{name: "story", limit: 10 * time.Minute, args: []string{"./test/e2e"}},
	{
		name: "suites", limit: 40 * time.Minute, suites: "models,processes",
		of: []string{"changed", "direct", "others"},
	},
	{
		name: "promises", limit: 20 * time.Minute, suites: "scenarios,mongo",
		args: []string{"-run=TestScenarios", "./test/e2e", "-ginkgo.fail-fast", "-ginkgo.label-filter=/^P[0-9]+$/"},
	},
	{name: "chaos", limit: 15 * time.Minute, suites: "scenarios,mongo", args: []string{"./test/e2e/chaos"}},
}

func main() {
	only := flag.String("only", "", "promises to break, for example P1,P6; empty: all")
	tier := flag.String(
		"tier", "", "tiers to run, of changed,direct,others,story,suites,promises,chaos; empty: all",
	)
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, *only, *tier)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "broken:", err)
		os.Exit(1)
	}
}

// wants says whether a list of names is empty or has the name.
func wants(list, name string) bool {
	return list == "" || slices.Contains(strings.Split(list, ","), name)
}

// run works in a worktree of HEAD. Its path is always the same, so that Go's build cache serves the next run as well.
func run(ctx context.Context, only, tier string) error {
	root, err := output(ctx, "", "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	dir := filepath.Join(os.TempDir(), "shardctl-broken")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return fmt.Errorf("another run goes on, or was killed and left its directory: %w", err)
	}
	defer func() {
		const remove = `chmod -R u+w "$0"; rm -rf "$0" && git worktree prune`
		_, _ = output(context.WithoutCancel(ctx), root, "sh", "-c", remove, dir)
	}()
	t := tree(dir + "/code")
	_, err = output(ctx, root, "git", "worktree", "add", "--detach", "--force", "--quiet", string(t), "HEAD")
	err = errors.Join(err, os.Mkdir(dir+"/t", 0o755), os.Setenv("TMPDIR", dir+"/t"))
	if err != nil {
		return fmt.Errorf("make a worktree: %w", err)
	}
	files, _ := filepath.Glob(root + "/test/broken/P*.patch") // the pattern is well-formed
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)  // at the end
	err = fmt.Errorf("there is no patch for %s", only)
	var errs []error
	for _, file := range files {
		promise := strings.Replace(filepath.Base(file)[:len("P01")], "P0", "P", 1)
		if !wants(only, promise) {
			continue
		}
		title, verdict, failed := t.try(ctx, file, tier)
		if err = ctx.Err(); err != nil {
			break
		}
		if failed != nil {
			verdict, errs = failed.Error(), append(errs, fmt.Errorf("%s: %w", promise, failed))
		}
		fmt.Fprintf(os.Stdout, "%s  broken by: %s  %s\n", promise, title, verdict)
		fmt.Fprintf(table, "%s\t%s\t%s\n", promise, title, verdict)
	}
	return errors.Join(append(errs, err, table.Flush())...)
}

// tree is the path of the worktree in which one promise at a time is broken.
type tree string

// try breaks one promise and runs tests until one is red. The title is the patch's first line.
func (t tree) try(ctx context.Context, file, tier string) (title, verdict string, err error) {
	text, _ := os.ReadFile(file) // git apply says what is wrong with it
	title, _, _ = strings.Cut(string(text), "\n")
	if _, err := output(ctx, string(t), "sh", "-c", `git reset --hard --quiet && git apply "$0"`, file); err != nil {
		return title, "", fmt.Errorf("the patch must be brought up to date: %w", err)
	}
	packages, err := t.dependents(ctx)
	if err != nil {
		return title, "", err
	}
	begun := time.Now()
	for _, step := range tiers {
		args := step.args
		for _, name := range step.of {
			args = append(args, packages[name]...)
		}
		if !wants(tier, step.name) || len(args) == 0 {
			continue
		}
		pkg, test, err := t.test(ctx, step, append(strings.Fields("-json -failfast -p=2 -timeout=30m"), args...))
		if err != nil {
			return title, "", fmt.Errorf("%s: %w", step.name, err)
		}
		if pkg == "" {
			continue
		}
		name := strings.TrimPrefix(pkg, module) + " " + test
		verdict := fmt.Sprintf("red in %s: %s  after %v", step.name, name, time.Since(begun).Round(time.Second))
		if _, err := output(ctx, string(t), "git", "reset", "--hard", "--quiet"); err != nil {
			return title, "", err
		}
		control := []string{"-run", "^" + strings.Split(test, "/")[0] + "$", pkg}
		if len(step.args) > 0 {
			control = step.args
		}
		pkg, _, err = t.test(ctx, step, append([]string{"-json"}, control...))
		if pkg != "" || err != nil {
			return title, "", errors.Join(err, errors.New(name+" is red without the patch as well"))
		}
		return title, verdict, nil
	}
	return title, "", errors.New("CAUGHT BY NOTHING")
}

// dependents are, by tier, the packages with unit tests that can notice what the patch changes.
func (t tree) dependents(ctx context.Context) (map[string][]string, error) {
	const format = `{{or .ForTest .ImportPath}}|{{.ImportPath}}|{{join .Imports " "}}|{{join .Deps " "}}`
	files, err := output(ctx, string(t), "git", "diff", "--name-only")
	listed, unlisted := output(ctx, string(t), "go", "list", "-test", "-f", format, "./...")
	if err := errors.Join(err, unlisted); err != nil {
		return nil, err
	}
	lines := strings.Split(listed, "\n") // those first that need little: they are near, and build soon
	slices.SortStableFunc(lines, func(a, b string) int { return strings.Count(a, " ") - strings.Count(b, " ") })
	changed := func(name string) bool {
		return slices.ContainsFunc(strings.Fields(files), func(f string) bool { return name == module+path.Dir(f) })
	}
	by, placed := map[string][]string{}, map[string]bool{}
	for i, column := range []int{0, 2, 3} { // where each tier finds the changed packages
		for _, line := range lines {
			part := strings.Split(line, "|")
			name, whole := strings.CutSuffix(part[0], ".test") // whole: the program that go test makes
			if whole && i < 2 || name == part[1] || placed[name] || notUnit.MatchString(name) {
				continue
			}
			if slices.ContainsFunc(strings.Fields(part[column]), changed) {
				by[tiers[i].name], placed[name] = append(by[tiers[i].name], name), true
			}
		}
	}
	return by, nil
}

// sweep ends what an interrupted test has left running: processes with the temporary directory in their environment.
const sweep = `for f in $(grep -lzs "^TMPDIR=$0$" /proc/[0-9]*/environ); do
	p=${f#/proc/} && p=${p%/environ} && [ "$p" = $$ ] || kill -9 "$p"; done 2>/dev/null`

// test runs go test until a test is red. Then it interrupts the rest, as Ctrl-C would.
func (t tree) test(ctx context.Context, s step, args []string) (pkg, test string, err error) {
	defer func() { _, _ = output(context.WithoutCancel(ctx), "/", "sh", "-c", sweep, os.Getenv("TMPDIR")) }()
	ctx, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-count=1"}, args...)...)
	cmd.Env = append(os.Environ(), "SHARDCTL_TEST="+s.suites)
	cmd.Dir, cmd.WaitDelay, cmd.SysProcAttr = string(t), 10*time.Second, &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	out, err := cmd.StdoutPipe()
	if err := cmp.Or(err, cmd.Start()); err != nil {
		return "", "", fmt.Errorf("start go test: %w", err)
	}
	if pkg, test, err = scan(out); pkg != "" || err != nil {
		cancel()
		_ = cmd.Wait()
	} else if ended := cmd.Wait(); ended != nil {
		err = fmt.Errorf("go test: %w", cmp.Or(ctx.Err(), ended))
	}
	return pkg, test, err
}

// output is what a short command writes.
func output(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", args[0], args[1], err)
	}
	return strings.TrimSpace(string(out)), nil
}

var (
	// notUnit are packages of scenarios, which have tiers of their own, and of pages.
	notUnit = regexp.MustCompile(`/(docs|test/e2e(/chaos|/kube|/brokers|/stores)?)$`)
	// redScenario is how Ginkgo lists what has failed.
	redScenario = regexp.MustCompile(`\[(?:FAIL|TIMEDOUT|PANICKED!)\] (.+)`)
)

// scan finds the first red test in what go test -json writes.
func scan(out io.Reader) (pkg, test string, err error) {
	running := map[string]string{} // by package: a panic ends it without a word about the test
	scenario := map[string]string{}
	for lines := bufio.NewReader(out); ; {
		line, end := lines.ReadString('\n')
		var event struct{ Action, Package, Test, FailedBuild, Output string }
		if json.Unmarshal([]byte(line), &event) == nil {
			running[event.Package] = cmp.Or(event.Test, running[event.Package])
			if m := redScenario.FindStringSubmatch(event.Output); m != nil {
				scenario[event.Package] = cmp.Or(scenario[event.Package], strings.TrimSpace(m[1]))
			}
			switch {
			case event.FailedBuild != "":
				return "", "", fmt.Errorf("the tests of %s do not build", event.Package)
			case event.Action == "fail":
				return event.Package, cmp.Or(scenario[event.Package], running[event.Package]), nil
			}
		}
		if end != nil {
			return "", "", nil //nolint:nilerr // the end of the output
		}
	}
}
