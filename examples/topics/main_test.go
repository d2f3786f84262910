package main

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if os.Getenv("TOPICS_PROCESS") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// line is one of a process. All processes write to one pipe, which keeps the order.
type line struct{ instance, text string }

// TestProcessesShareTheTopics starts real processes: one has its cap, two have half each, and the second takes over
// what it may of one that is ended, in order or by SIGKILL.
func TestProcessesShareTheTopics(t *testing.T) {
	uri, lines := "sqlite:"+filepath.Join(t.TempDir(), "topics.db"), make(chan line, 1000)
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close() })
	go read(out, lines)
	start := func(instance string) *exec.Cmd {
		c := exec.CommandContext(t.Context(), os.Args[0], "-store", uri, "-instance", instance)
		c.Env, c.Stdout, c.Stderr = append(os.Environ(), "TOPICS_PROCESS=1"), in, os.Stderr
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Process.Kill() })
		return c
	}
	owner, tokens := map[string]string{}, map[string]int64{}
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
				note(t, l, owner, tokens)
			case <-limit:
				t.Fatalf("shares %v, want %v", got, want)
			}
		}
	}
	a := start("a")
	waitFor(map[string]int{"a": 60})
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

// note takes a line: nothing begins that another process has not ended, and tokens rise.
func note(t *testing.T, l line, owner map[string]string, tokens map[string]int64) {
	t.Helper()
	topic, text, _ := strings.Cut(l.text, ": ")
	var token int64
	switch _, err := fmt.Sscanf(text, "begins, with token %d", &token); {
	case l.text == killed: // what a killed process had is free
		maps.DeleteFunc(owner, func(_, of string) bool { return of == l.instance })
	case err == nil:
		if owner[topic] != "" || token <= tokens[topic] {
			t.Errorf("%s begins on %s with token %d, runs on %q with %d", topic, l.instance, token, owner[topic], tokens[topic])
		}
		owner[topic], tokens[topic] = l.instance, token
	case text == "ends":
		delete(owner, topic)
	}
}
