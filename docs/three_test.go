//go:build linux

package docs_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/shardctl/shardctl/test/pageblock"
	"github.com/shardctl/shardctl/test/suites"
	"github.com/shardctl/shardctl/test/testprocess"
)

// maxLines is how many lines a program of the README may have that shares a hundred keys, without blank lines and
// imports.
const maxLines = 12

// The programs of the README spread a hundred keys over three processes. The last command of the block is run with
// INSTANCE=a, b and c. The keys are spread evenly, and no key is in two processes at any time.
func TestHundredKeysOnThreeProcesses(t *testing.T) {
	bin, shown := t.TempDir(), 0
	blocks := pageblock.Blocks("README.md", read(t, root+"/README.md"))
	for _, b := range blocks {
		name, is := strings.CutPrefix(b.Directive, "three: ")
		if !is {
			continue
		}
		shown++
		t.Run(name, func(t *testing.T) {
			if name == "python" {
				testprocess.NeedPrograms(t, suites.Clients, "make clients-install", "python3")
			} else {
				suites.Need(t, suites.Processes, "real processes")
			}
			s := newService(t, bin)
			for _, file := range blocks {
				if path, is := strings.CutPrefix(file.Directive, "program: "+name+"/"); is {
					checkLength(t, file)
					writeFile(t, filepath.Join(s.dir, path), s.adapt(file.Text))
				}
			}
			s.start(b.Commands())
			s.wait("33, 33 and 34 keys", 33, 33, 34)
			s.stop()
			s.wait("no keys")
		})
	}
	if shown != 2 {
		t.Errorf("the README has %d services, want one in Go and one in Python", shown)
	}
}

var instances = []string{"a", "b", "c"}

// exited begins the line about the end of a process.
const exited = "exited: "

var importBlock = regexp.MustCompile(`(?ms)^package .*?$|^import \(.*?^\)$|^import .*?$`)

func checkLength(t *testing.T, program pageblock.Block) {
	t.Helper()
	n := 0
	for line := range strings.Lines(importBlock.ReplaceAllString(program.Text, "")) {
		if strings.TrimSpace(line) != "" {
			n++
		}
	}
	if n > maxLines {
		t.Errorf("%s:%d: the program has %d lines, at most %d", program.Page, program.Line, n, maxLines)
	}
}

// service is three processes in a directory of their own, which write to one pipe: its order is that of their writes.
type service struct {
	t         *testing.T
	dir, tree string
	sockets   string // the path of a socket is short
	env       []string
	out       *output
	processes []*exec.Cmd
}

func newService(t *testing.T, bin string) *service {
	t.Helper()
	tree, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	sockets, err := os.MkdirTemp("", "s-") //nolint:usetesting // that has the name of the test
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(sockets) })
	return &service{
		t: t, dir: t.TempDir(), tree: tree, sockets: sockets, out: &output{},
		// Without a buffer Python writes a line in parts, and others write in between.
		env: append(os.Environ(), "GOBIN="+bin, "PATH="+bin+":"+os.Getenv("PATH"), "PYTHONUNBUFFERED="),
	}
}

// adapt has the clone be this tree, and sockets be where only this test is.
func (s *service) adapt(text string) string {
	return strings.NewReplacer("../shardctl", s.tree, "unix:/tmp/", "unix:"+s.sockets+"/").Replace(text)
}

// start runs all commands but the last, which it starts three times.
func (s *service) start(commands []pageblock.Command) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.t.Context()), longest)
	s.t.Cleanup(cancel)
	shell := func(text string) *exec.Cmd {
		c := exec.CommandContext(ctx, "bash", "-c", s.adapt(text))
		c.Dir, c.Env = s.dir, s.env
		c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C reaches all that it started
		return c
	}
	for _, c := range commands[:len(commands)-1] {
		if printed, err := shell(c.Text).CombinedOutput(); err != nil {
			s.t.Fatalf("%s: %v\n%s", c.Text, err, printed)
		}
	}
	last := commands[len(commands)-1].Text
	if !strings.HasPrefix(last, "INSTANCE=a ") {
		s.t.Fatalf("the last command is %s, want one with INSTANCE=a", last)
	}
	read, write, err := os.Pipe()
	if err != nil {
		s.t.Fatal(err)
	}
	go func() { _, _ = io.Copy(s.out, read) }()
	for _, instance := range instances {
		c := shell(strings.Replace(last, "INSTANCE=a", "INSTANCE="+instance, 1))
		c.Stdout, c.Stderr = write, write
		if err := c.Start(); err != nil {
			s.t.Fatal(err)
		}
		s.processes = append(s.processes, c)
		go func() { _, _ = fmt.Fprintf(write, "%s%s: %v\n", exited, instance, c.Wait()) }()
	}
	s.t.Cleanup(func() {
		for _, c := range s.processes {
			_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) // where the test has failed
		}
		_ = write.Close()
		if s.t.Failed() {
			s.t.Logf("what the processes printed:\n%s", s.out.all())
		}
	})
}

// stop sends what Ctrl-C does, and waits for the end.
func (s *service) stop() {
	s.t.Helper()
	for _, c := range s.processes {
		if err := syscall.Kill(-c.Process.Pid, syscall.SIGINT); err != nil {
			s.t.Error(err)
		}
	}
	s.out.wait(s.t, 0, func(printed string) bool { return strings.Count(printed, exited) == len(s.processes) }, "the end")
	for _, instance := range instances {
		if !strings.Contains(s.out.all(), exited+instance+": <nil>\n") {
			s.t.Errorf("%s did not end well", instance)
		}
	}
}

// wait waits until the processes have so many keys, in ascending order. A key in two processes fails the test, and so
// does a process that ends before.
func (s *service) wait(what string, want ...int) {
	s.t.Helper()
	var twice []string
	var early bool
	s.out.wait(s.t, 0, func(printed string) bool {
		var shares map[string]int
		shares, twice = readShares(printed)
		early = len(want) > 0 && strings.Contains(printed, exited)
		return early || len(twice) > 0 || slices.Equal(slices.Sorted(maps.Values(shares)), want)
	}, what)
	if early || len(twice) > 0 {
		s.t.Fatalf("waiting for %s: a process has ended: %v; %s", what, early, strings.Join(twice, ", "))
	}
}

var noted = regexp.MustCompile(`(?m)^([abc]) (begins|ends) (\S+)$`)

// readShares counts the keys of each process, and lists those that began before they had ended elsewhere.
func readShares(printed string) (shares map[string]int, twice []string) {
	owner := map[string]string{}
	for _, m := range noted.FindAllStringSubmatch(printed, -1) {
		process, key := m[1], m[3]
		if m[2] == "ends" {
			delete(owner, key)
			continue
		}
		if other := owner[key]; other != "" {
			twice = append(twice, key+" is in "+other+" and in "+process)
		}
		owner[key] = process
	}
	shares = map[string]int{}
	for _, process := range owner {
		shares[process]++
	}
	return shares, twice
}
