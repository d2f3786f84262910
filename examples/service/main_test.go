package main

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/web"
	"github.com/shardctl/shardctl/pkg/client"
	"github.com/shardctl/shardctl/test/suites"
)

func TestMain(m *testing.M) {
	if os.Getenv("SERVICE_PROCESS") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// line is one of a process. All processes write to one pipe, which keeps the order.
type line struct{ instance, text string }

// TestProcessesShareTheTopics starts real processes: one has its cap, two have half each, and the second takes over
// what it may of one that is ended, in order or by SIGKILL. Topics go on where they were. The page shows them.
func TestProcessesShareTheTopics(t *testing.T) {
	suites.Need(t, suites.Processes, "real processes and half a minute")
	uri, lines := "sqlite:"+filepath.Join(t.TempDir(), "topics.db"), make(chan line, 1000)
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close() })
	go read(out, lines)
	addresses, err := web.FreeAddresses(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	start := func(instance string, args ...string) *exec.Cmd {
		c := exec.CommandContext(t.Context(), os.Args[0], append(args, "-store", uri, "-instance", instance)...)
		c.Env, c.Stdout, c.Stderr = append(os.Environ(), "SERVICE_PROCESS=1"), in, os.Stderr
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Process.Kill() })
		return c
	}
	owner, last := map[string]string{}, map[string]begun{}
	waitFor := func(want map[string]int) {
		t.Helper()
		for limit := time.After(time.Minute); ; {
			got := map[string]int{}
			for _, instance := range owner {
				got[instance]++
			}
			if maps.Equal(got, want) {
				return
			}
			select {
			case l := <-lines:
				note(t, l, owner, last)
			case <-limit:
				t.Fatalf("shares %v, want %v", got, want)
			}
		}
	}
	a := start("a", "-listen", addresses[0])
	waitFor(map[string]int{"a": 60})
	page, err := client.New("http://" + addresses[0])
	if err != nil {
		t.Fatal(err)
	}
	for { // its server may have begun after the work
		if tasks, err := page.Tasks().List(t.Context(), client.Filter{}); err == nil && len(tasks) == 100 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	b := start("b")
	waitFor(map[string]int{"a": 50, "b": 50})
	end(t, a, syscall.SIGTERM)
	waitFor(map[string]int{"b": 60})
	c := start("c")
	waitFor(map[string]int{"b": 50, "c": 50})
	end(t, b, syscall.SIGKILL)
	_ = b.Wait() // it was killed
	fmt.Fprintln(in, "b: "+killed)
	waitFor(map[string]int{"c": 60})
	end(t, c, syscall.SIGTERM)
	waitFor(map[string]int{})
	if moved := slices.Collect(maps.Values(last)); !slices.ContainsFunc(moved, func(b begun) bool { return b.position > 0 }) {
		t.Errorf("no topic has gone on where it was: %v", last)
	}
}

func end(t *testing.T, c *exec.Cmd, s syscall.Signal) {
	t.Helper()
	if err := c.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// killed is what the test says of a process that cannot.
const killed = "killed"

func read(out io.Reader, to chan<- line) {
	for s := bufio.NewScanner(out); s.Scan(); {
		instance, text, _ := strings.Cut(s.Text(), ": ")
		to <- line{instance, text}
	}
}

// begun is how a topic began.
type begun struct{ position, token int64 }

// note takes a line: nothing begins that another process has not ended, tokens rise, and no position goes back.
func note(t *testing.T, l line, owner map[string]string, last map[string]begun) {
	t.Helper()
	topic, text, _ := strings.Cut(l.text, ": ")
	var now begun
	switch _, err := fmt.Sscanf(text, "begins at %d, with token %d", &now.position, &now.token); {
	case l.text == killed: // what a killed process had is free
		maps.DeleteFunc(owner, func(_, of string) bool { return of == l.instance })
	case err == nil:
		if was := last[topic]; owner[topic] != "" || now.token <= was.token || now.position < was.position {
			t.Errorf("%s begins on %s: %+v, runs on %q: %+v", topic, l.instance, now, owner[topic], was)
		}
		owner[topic], last[topic] = l.instance, now
	case text == "ends":
		delete(owner, topic)
	}
}
