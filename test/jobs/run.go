//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/shardctl/shardctl/internal/process"
	"github.com/shardctl/shardctl/test/testprocess"
)

// markEnv is in the environment of all that a run starts.
const markEnv = "SHARDCTL_TEST_RUN"

// endPatience is how long a job that was asked to end may take, until it is killed.
const endPatience = 20 * time.Second

// Lines of a job's output that the table repeats.
var (
	triedAgain = regexp.MustCompile(`(?m)^\s*tried again: (.*)$|\[FLAKEY TEST - TOOK \d+ ATTEMPTS TO PASS\].*\n(.*)$`)
	cutShort   = regexp.MustCompile(`(?m)^\s*cut short: (.*)$`)
	notRun     = regexp.MustCompile(`(?m)^\s*not run: (.*)$`)
	cached     = regexp.MustCompile(`(?m)^ok\s+\S+\s+\(cached\)$`)
)

// result is what became of a job.
type result struct {
	Job        string        `json:"job"`
	Status     status        `json:"status"`
	Took       time.Duration `json:"took"` // in ns
	CPU        time.Duration `json:"cpu"`  // of its processes that were waited for, in ns
	TriedAgain []string      `json:"triedAgain,omitempty"`
	CutShort   []string      `json:"cutShort,omitempty"`
	Failures   []string      `json:"failures,omitempty"` // their first lines, of second attempts too
	Cached     int           `json:"cached,omitempty"`   // packages that passed before, unchanged
	Why        string        `json:"why,omitempty"`      // it failed or was not run
}

type status string

const (
	passed  status = "passed"
	failed  status = "FAILED"
	skipped status = "not run"
)

// runner runs jobs. Its methods may be called concurrently.
type runner struct {
	dir   string // for temporary files of jobs
	logs  string
	mark  string
	tries string // how often a test that failed may be tried; empty: as the Makefile says

	mu  sync.Mutex // of the output and the results
	out io.Writer

	results []result
}

func (r *runner) say(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, _ = fmt.Fprintf(r.out, "==== "+format+"\n", args...)
}

// stages runs them until one has failed or ctx has ended, and says whether all jobs have passed.
func (r *runner) stages(ctx context.Context, stages []stage, skip map[string]string) bool {
	for _, s := range stages {
		var lanes sync.WaitGroup
		for _, l := range s {
			lanes.Go(func() {
				for _, name := range l {
					j, _ := find(name)
					r.one(ctx, j, skip[name])
				}
			})
		}
		lanes.Wait()
		if !r.allPassed() || ctx.Err() != nil {
			return false
		}
	}
	return true
}

func (r *runner) allPassed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range r.results {
		if one.Status == failed {
			return false
		}
	}
	return true
}

// one runs a job and keeps its result. Its output is printed whole once it has ended.
func (r *runner) one(ctx context.Context, j job, why string) {
	if why != "" || ctx.Err() != nil {
		r.keep(result{Job: j.name, Status: skipped, Why: why}, nil)
		return
	}
	r.say("%s begins", j.name)
	began := time.Now()
	output, cpu, err := r.make(ctx, j)
	is := verdict(j.name, output, err)
	is.Took, is.CPU = time.Since(began), cpu
	r.keep(is, output)
}

func (r *runner) keep(is result, output []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.results = append(r.results, is)
	_, _ = fmt.Fprintf(r.out, "\n==== %s\n%s==== %s: %s after %s\n", is.Job, output, is.Job, is.Status,
		seconds(is.Took))
}

// verdict reads a job's output.
func verdict(name string, output []byte, err error) result {
	is := result{
		Job: name, Status: passed, TriedAgain: lines(triedAgain, output), CutShort: lines(cutShort, output),
		Cached: len(cached.FindAll(output, -1)),
	}
	if why := lines(notRun, output); len(why) > 0 {
		is.Status, is.Why = skipped, why[0]
	}
	if err != nil {
		is.Status, is.Why = failed, err.Error()
	}
	if err != nil || len(is.TriedAgain) > 0 {
		is.Failures = failures(output)
	}
	return is
}

func lines(of *regexp.Regexp, output []byte) []string {
	var found []string
	for _, match := range of.FindAllSubmatch(output, -1) {
		found = append(found, string(bytes.Join(match[1:], nil)))
	}
	return found
}

// make runs a job's targets within its limit. All its processes are a group and a session, which ends when it fails.
// [leftovers] reports what a job that passed leaves.
func (r *runner) make(ctx context.Context, j job) (output []byte, cpu time.Duration, err error) {
	limited, cancel := context.WithTimeout(ctx, j.limit)
	defer cancel()
	targets := j.make
	if len(targets) == 0 {
		targets = []string{j.name}
	}
	args := append([]string{"make", "--no-print-directory"}, targets...)
	if j.yields {
		args = append([]string{"nice", "-n", "19"}, args...)
	}
	if r.tries != "" {
		args = append(args, "TRIES="+r.tries)
	}
	log, err := os.Create(filepath.Join(r.logs, j.name+".log"))
	if err != nil {
		return nil, 0, fmt.Errorf("output of %s: %w", j.name, err)
	}
	defer func() { _ = log.Close() }() // it is read again below
	cmd := exec.CommandContext(limited, args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "TMPDIR="+r.dir, markEnv+"="+r.mark)
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = log, log, &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = endPatience
	if err = cmd.Start(); err == nil {
		if j.yields {
			yield(cmd.Process.Pid)
		}
		err = cmd.Wait()
	}
	if err != nil && cmd.Process != nil {
		process.SignalGroup(cmd.Process.Pid, syscall.SIGKILL)
	}
	if cmd.ProcessState != nil {
		cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	output, readErr := os.ReadFile(log.Name())
	switch {
	case ctx.Err() != nil:
		err = errors.New("interrupted")
	case limited.Err() != nil:
		err = fmt.Errorf("its limit of %s was reached", j.limit)
	}
	if len(output) > 0 && !bytes.HasSuffix(output, []byte("\n")) {
		output = append(output, '\n')
	}
	return output, cpu, errors.Join(err, readErr)
}

// yield takes a session's processors from it while others want them. Linux shares processors between sessions first
// (sched_autogroup_enabled), which nice alone does not change: https://man7.org/linux/man-pages/man7/sched.7.html.
// Elsewhere there is nothing more to do.
func yield(pid int) {
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/autogroup", pid), []byte("19"), 0)
}

// failureBegins is the first line of what a failed test says: of go test, of Ginkgo, and of a program that ends at
// once.
var failureBegins = regexp.MustCompile(
	`^(--- FAIL: |\s*\[(FAILED|TIMEDOUT|PANICKED)\] |\s*first attempt - |panic: |fatal error: |WARNING: DATA RACE)`,
)

const (
	mostFailures = 6   // of a job
	mostLines    = 12  // of a failure
	mostColumns  = 240 // of a line, in bytes
)

// failures are the first lines of the first failures in a job's output. What comes twice is in it once.
func failures(output []byte) []string {
	all := strings.Split(string(output), "\n")
	var found []string
	for at := 0; at < len(all) && len(found) < mostFailures; at++ {
		if !failureBegins.MatchString(all[at]) {
			continue
		}
		end := at + 1
		for end < min(len(all), at+mostLines) && !endsFailure(all[end]) {
			end++
		}
		lines := slices.Clone(all[at:end])
		for i, line := range lines {
			lines[i] = line[:min(len(line), mostColumns)]
		}
		if text := strings.Join(lines, "\n"); !slices.Contains(found, text) {
			found = append(found, text)
		}
		at = end - 1
	}
	return found
}

// endsFailure says whether a line is no more of the failure before it.
func endsFailure(line string) bool {
	return line == "FAIL" || strings.HasPrefix(line, "FAIL\t") || strings.HasPrefix(line, "ok  \t") ||
		failureBegins.MatchString(line)
}

// endingPatience is how long processes may take that are ending by themselves.
const endingPatience = 5 * time.Second

// leftovers ends the processes with a run's mark, and returns them and the files in its directory, a line each. What a
// failed test has kept is none: its second attempt may have passed.
func leftovers(mark, dir string) []string {
	var found []string
	for end := time.Now().Add(endingPatience); ; {
		left := marked(mark)
		if len(left) == 0 {
			break
		}
		if time.Now().After(end) {
			for _, p := range left {
				found = append(found, fmt.Sprintf("process %d, %s", p.PID, commandLine(p.PID)))
				p.Signal(unix.SIGKILL)
			}
			break
		}
		time.Sleep(100 * time.Millisecond) // processes of others: nothing reports their end
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		found = append(found, err.Error())
	}
	for _, f := range files {
		if testprocess.Kept(filepath.Join(dir, f.Name())) {
			continue
		}
		found = append(found, "file "+f.Name())
	}
	return found
}

// marked are the living processes of a run, but for this one.
func marked(mark string) []process.Proc {
	all, err := process.All()
	if err != nil {
		return nil // no /proc: nothing can be said
	}
	return slices.DeleteFunc(all, func(p process.Proc) bool {
		return p.Zombie || p.PID == os.Getpid() || process.Environ(p.PID, markEnv)[0] != mark
	})
}

func commandLine(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(strings.ReplaceAll(string(text), "\x00", " "))
}
