//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/test/testprocess"
)

// Every job is a target of the Makefile, and every plan is made of jobs.
func TestPlansAreTargets(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for plan, stages := range plans {
		for _, name := range names(stages) {
			j, found := find(name)
			if !found {
				t.Errorf("%s: there is no job %q", plan, name)
				continue
			}
			if j.limit <= 0 || j.limit > longest {
				t.Errorf("%s: limit %s, want at most %s", name, j.limit, longest)
			}
			targets := append(slices.Clone(j.make), j.needs...)
			if len(j.make) == 0 {
				targets = append(targets, name)
			}
			for _, target := range targets {
				if strings.Contains(target, "=") {
					continue
				}
				if !regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(target) + `:`).Match(makefile) {
					t.Errorf("%s: the Makefile has no target %q", name, target)
				}
			}
		}
	}
}

func TestChoose(t *testing.T) {
	chosen, err := choose("ci", []string{"page", "chart", "check"})
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(chosen); got != "[[[page] [check chart]]]" {
		t.Errorf("chosen: %s", got)
	}
	for _, bad := range [][]string{{"weekly"}, {"nightly", "sleep"}} {
		if _, err := choose(bad[0], bad[1:]); err == nil || !strings.Contains(err.Error(), bad[len(bad)-1]) {
			t.Errorf("%v: %v", bad, err)
		}
	}
	want := []string{"stores-install", "brokers-install", "clients-install", "tools"}
	if got := installs(plans["ci"], nil); !slices.Equal(got, want) {
		t.Errorf("installed for ci: %v, want %v", got, want)
	}
	if got := installs(plans["ci"], map[string]string{"stores-short": "not reached"}); slices.Contains(got,
		"stores-install") {
		t.Errorf("installed for a job that is skipped: %v", got)
	}
}

// An output says what was tried again, cut short and not run.
func TestVerdict(t *testing.T) {
	output := []byte("tried again: one\n  tried again: two\n↺ [FLAKEY TEST - TOOK 2 ATTEMPTS TO PASS] [9 s]\nthree\nok\ncut short: 40 of 90 states\n")
	if is := verdict("a", output, nil); is.Status != passed || len(is.TriedAgain) != 3 || is.TriedAgain[2] != "three" ||
		len(is.CutShort) != 1 {
		t.Errorf("%+v", is)
	}
	if is := verdict("a", []byte("not run: no cluster\n"), nil); is.Status != skipped || is.Why != "no cluster" {
		t.Errorf("%+v", is)
	}
	if is := verdict("a", []byte("ok  \tpkg/a\t(cached)\nok  \tpkg/b\t1.0s\n"), nil); is.Cached != 1 {
		t.Errorf("%+v", is)
	}
	if is := verdict("a", []byte("not run: no cluster\n"), errors.New("status 1")); is.Status != failed {
		t.Errorf("%+v", is)
	}
}

// The table shows how tests failed, also those whose second attempt passed: the output before it may be long, and cut.
func TestFailuresAreInTheTable(t *testing.T) {
	ginkgo := "  [FAILED] Timed out after 10.0s.\n  Expected 1 to be 2\n  In [It] at: /x_test.go:7\n"
	long := "--- FAIL: TestLong (1.00s)\n" + strings.Repeat("    x_test.go:9: more\n", 40)
	output := "ok  \tpkg/a\t1s\n--- FAIL: TestX (0.10s)\n    x_test.go:3: got 1\nFAIL\nexit status 1\nFAIL\tpkg/x\t0.1s\n" + ginkgo + "• rest\n\n\n\n\n\n\n\n\n\n" +
		ginkgo + "• rest\n\n\n\n\n\n\n\n\n\n" + long + "panic: at last\n"
	got := failures([]byte(output))
	if len(got) != 4 || got[0] != "--- FAIL: TestX (0.10s)\n    x_test.go:3: got 1" ||
		strings.Count(got[2], "\n") != mostLines-1 ||
		got[3] != "panic: at last\n" {
		t.Errorf("%d failures: %q", len(got), got)
	}
	var out bytes.Buffer
	table(&out, []result{{Job: "a", Status: passed, Failures: got}}, time.Second)
	if !strings.Contains(out.String(), "x_test.go:3: got 1") || !strings.Contains(out.String(), "Expected 1 to be 2") {
		t.Error(out.String())
	}
	if many := failures([]byte(strings.Repeat("--- FAIL: TestY (0s)\n"+long, 9))); len(many) > mostFailures {
		t.Errorf("%d failures", len(many))
	}
}

func TestTableBeginsWithTheLongest(t *testing.T) {
	var out bytes.Buffer
	table(&out, []result{
		{Job: "quick", Status: passed, Took: time.Second},
		{Job: "slow", Status: failed, Took: time.Minute, TriedAgain: []string{"T"}, Why: "status 1"},
	}, time.Minute)
	text := out.String()
	if strings.Index(text, "slow") > strings.Index(text, "quick") {
		t.Error("the quick one stands first")
	}
	for _, part := range []string{"tried again in slow: T", "slow FAILED: status 1"} {
		if !strings.Contains(text, part) {
			t.Errorf("the table lacks %q:\n%s", part, text)
		}
	}
}

func TestResultsAreKept(t *testing.T) {
	file := filepath.Join(t.TempDir(), "results")
	for _, name := range []string{"a", "b"} {
		if err := save(file, []result{{Job: name, Status: passed, Took: time.Second}}); err != nil {
			t.Fatal(err)
		}
	}
	all, err := load(file)
	if err != nil || len(all) != 2 || all[1].Job != "b" || all[1].Took != time.Second {
		t.Errorf("%+v, %v", all, err)
	}
	if all, err := load(filepath.Join(t.TempDir(), "none")); err != nil || len(all) > 0 {
		t.Errorf("%+v, %v", all, err)
	}
}

// played runs targets of a Makefile of the test's own, one lane of each.
func played(t *testing.T, makefile string, limit time.Duration, targets ...string) (string, error) {
	t.Helper()
	var all []job
	for _, target := range targets {
		all = append(all, job{name: target, limit: limit})
	}
	return playJobs(t, makefile, all...)
}

func playJobs(t *testing.T, makefile string, all ...job) (string, error) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "Makefile"), []byte(makefile), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	t.Setenv("TMPDIR", t.TempDir())
	was := jobs
	t.Cleanup(func() { jobs = was })
	var lanes stage
	jobs = all
	for _, j := range all {
		lanes = append(lanes, lane{j.name})
	}
	var out bytes.Buffer
	err := play(t.Context(), []stage{lanes}, options{clean: true}, &out)
	return out.String(), err
}

func TestAFailureIsTold(t *testing.T) {
	out, err := played(t, "good:\n\t@echo well\nbad:\n\t@echo ill; exit 3\n", time.Minute, "good", "bad")
	if err == nil {
		t.Error("no error")
	}
	for _, part := range []string{"well", "ill", "bad: FAILED", "good: passed"} {
		if !strings.Contains(out, part) {
			t.Errorf("the output lacks %q:\n%s", part, out)
		}
	}
	kept, _ := filepath.Glob(filepath.Join(os.Getenv("TMPDIR"), dirPrefix+"*"))
	if len(kept) != 1 || !strings.Contains(err.Error(), kept[0]) {
		t.Errorf("kept %v, and reported: %v", kept, err)
	}
	// the next run takes it away
	dir, unlock, err := temporary()
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	if all, _ := filepath.Glob(filepath.Join(os.Getenv("TMPDIR"), dirPrefix+"*")); !slices.Equal(all, []string{dir}) {
		t.Errorf("directories of runs: %v", all)
	}
}

func TestAJobYields(t *testing.T) {
	out, err := playJobs(t, "show:\n\t@echo nice $$(nice); cat /proc/self/autogroup 2>/dev/null || true\n",
		job{name: "show", limit: time.Minute, yields: true})
	if err != nil || !strings.Contains(out, "nice 19") {
		t.Errorf("%v\n%s", err, out)
	}
	if strings.Count(out, "nice 19") != 1+strings.Count(out, "/autogroup-") {
		t.Errorf("its session does not yield:\n%s", out)
	}
}

func TestALimitEndsAJob(t *testing.T) {
	out, err := played(t, "slow:\n\t@sleep 60\n", 300*time.Millisecond, "slow")
	if err == nil || !strings.Contains(out, "its limit of 300ms was reached") {
		t.Errorf("%v\n%s", err, out)
	}
}

// Go takes the results of another run for this one's only where TMPDIR is the same.
func TestRunsOfACheckoutShareAName(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	name := func() string {
		t.Helper()
		dir, unlock, err := temporary()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(unlock)
		return dir
	}
	first, beside := name(), name()
	if first == beside {
		t.Error("two runs at the same time have one directory")
	}
	t.Chdir(t.TempDir())
	if other := name(); other == first {
		t.Error("two checkouts have one directory")
	}
}

// What a job leaves is a failure, and goes.
func TestWhatIsLeftBehindIsTold(t *testing.T) {
	if _, err := os.Stat("/proc/self/environ"); err != nil {
		t.Skip("no /proc: processes cannot be found")
	}
	out, err := played(t, "messy:\n\t@touch $$TMPDIR/litter; setsid sleep 600 >/dev/null 2>&1 & sleep 0.5\n",
		time.Minute, "messy")
	if err == nil || !strings.Contains(out, "file litter") || !strings.Contains(out, "sleep 600") {
		t.Errorf("%v\n%s", err, out)
	}
	if all, _ := filepath.Glob(filepath.Join(os.Getenv("TMPDIR"), dirPrefix+"*")); len(all) > 0 {
		t.Errorf("it is still there: %v", all)
	}
}

// What a test kept when it failed is no litter: where it has a second attempt, the job may pass.
func TestWhatAFailureKeepsIsNotLeftBehind(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	work, err := testprocess.WorkDir("jobs")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(work.Dir)
	if left := leftovers("no process", dir); len(left) != 1 {
		t.Errorf("of a test that has not ended: %q", left)
	}
	if err := work.Close(true); err != nil {
		t.Fatal(err)
	}
	if left := leftovers("no process", dir); len(left) > 0 {
		t.Errorf("%q", left)
	}
}

func TestReached(t *testing.T) {
	for file, want := range map[string]bool{
		"pkg/a/a.go": true, "pkg/a/testdata/x/y.txt": true, "pkg/b/b.go": false, "pkg/a/README.md": false,
		"a.go": false,
	} {
		if got := within(file, map[string]bool{"pkg/a": true, "": true}); got != want {
			t.Errorf("%s: %v", file, got)
		}
	}
	for file, want := range map[string]bool{"go.sum": true, ".ci/run": true, "docs/faq.md": false} {
		if got, err := (change{files: []string{file}}).reaches(t.Context(), []string{"."}); got != want || err != nil {
			t.Errorf("%s: %v, %v", file, got, err)
		}
	}
}

func TestBaseOfMainIsADayOld(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv(baseEnv, "")
	git := func(when string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Env = append(os.Environ(), "GIT_COMMITTER_DATE="+when, "GIT_AUTHOR_DATE="+when,
			"GIT_CONFIG_GLOBAL=/dev/null")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	commit := func(when string) string {
		git(when, "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "--allow-empty", "-m", when)
		return git(when, "rev-parse", "HEAD")
	}
	git("", "init", "-q")
	commit("2026-01-01T00:00:00Z")
	old := commit("2026-01-02T00:00:00Z")
	commit("2026-01-03T11:00:00Z")
	commit("2026-01-03T12:00:00Z")
	if base, err := baseOf(context.Background()); err != nil || base != old {
		t.Errorf("%s, %v; want %s", base, err, old)
	}
}
