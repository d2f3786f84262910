package dev

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shardctl/shardctl/test/suites"
)

// scripted is a cluster of one replica, which is a shell script. Its third argument is the configuration's file.
func scripted(t *testing.T, pause time.Duration, script string) *cluster {
	t.Helper()
	suites.Need(t, suites.Processes, "real processes")
	dir := t.TempDir()
	program := filepath.Join(dir, "replica.sh")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	c := newCluster(Options{Replicas: 1, Tasks: 1, Cap: 1}, program, dir)
	c.pause = pause
	t.Cleanup(func() { c.close(stopGrace) })
	if err := c.add(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

// soon is a pause that no test need wait for.
const soon = 10 * time.Millisecond

// until waits for a state of r1, and gives what it was before.
func until(t *testing.T, c *cluster, what string, holds func(Replica) bool) Replica {
	t.Helper()
	for limit := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		all := c.list()
		if len(all) != 1 || all[0].Name != "r1" {
			t.Fatalf("replicas are %+v", all)
		}
		if holds(all[0]) {
			return all[0]
		}
		if time.Now().After(limit) {
			t.Fatalf("never %s: %+v", what, all[0])
		}
	}
}

func TestReplicaThatLostItsLeaseIsStartedAgain(t *testing.T) {
	c := scripted(t, soon, `echo began; if [ -e "$3.once" ]; then exec sleep 60; fi; : > "$3.once"; exit 75`)
	first := c.replicas[0]
	<-first.done
	until(t, c, "back", func(r Replica) bool { return r.State == Running && r.Guard != first.cmd.Process.Pid })
	if now := c.admins(); len(now) != 1 || now[0] == first.admin {
		t.Errorf("it answers at %v, the process before did at %s, from which that must differ", now, first.admin)
	}
	if c.list()[0].Again {
		t.Error("a replica that runs is to be started again")
	}
	log := func() string {
		content, _ := os.ReadFile(first.log)
		return string(content)
	}
	for limit := time.Now().Add(patience); strings.Count(log(), "began") != 2; time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("the log of both is %q", log())
		}
	}
}

func TestReplicaThatWasEndedStaysAway(t *testing.T) {
	for name, end := range map[string]struct {
		script string
		by     func(c *cluster) error // nil: it ends by itself
		why    string
	}{
		"the guard is killed":     {"exec sleep 60", func(c *cluster) error { return c.kill("r1") }, "signal: killed"},
		"the worker is killed":    {"exit 137", nil, "its worker: signal: killed"},
		"the configuration":       {"echo error: it is wrong; exit 78", nil, "it is wrong"},
		"the worker crashed":      {"echo goroutine 1; exit 70", nil, "its worker crashed: see "},
		"stopped before it ended": {"trap 'exit 75' TERM; echo up; while :; do sleep 0.01; done", stopOnceUp, "its lease ran out"},
	} {
		t.Run(name, func(t *testing.T) {
			c := scripted(t, soon, end.script)
			first := c.replicas[0]
			if end.by != nil {
				if err := end.by(c); err != nil {
					t.Fatal(err)
				}
			}
			dead := until(t, c, "dead", func(r Replica) bool { return r.State == Dead })
			c.running.Wait() // nothing more is planned
			if last := c.list()[0]; last.State != Dead || last.Again || dead.Again || c.replicas[0] != first ||
				!strings.HasPrefix(last.Why, end.why) || last.Refused != (name == "the configuration") {
				t.Errorf("got %+v", last)
			}
		})
	}
}

// stopOnceUp asks r1 to stop when it has said a word.
func stopOnceUp(c *cluster) error {
	for limit := time.Now().Add(patience); time.Now().Before(limit); time.Sleep(time.Millisecond) {
		if content, err := os.ReadFile(c.replicas[0].log); err == nil && len(content) > 0 {
			break
		}
	}
	return c.stop("r1")
}

func TestCloseDoesNotWaitForAReplicaToComeBack(t *testing.T) {
	c := scripted(t, time.Hour, "exit 75")
	first := c.replicas[0]
	<-first.done
	closed := make(chan int)
	go func() { closed <- c.close(stopGrace) }()
	select {
	case killed := <-closed:
		if killed != 0 {
			t.Errorf("%d were killed", killed)
		}
	case <-time.After(patience):
		t.Fatal("it waits")
	}
	if err := syscall.Kill(first.cmd.Process.Pid, 0); err == nil {
		t.Error("the process is there")
	}
}

func TestReplicaThatCannotBeStartedAgain(t *testing.T) {
	c := scripted(t, soon, `rm "$0"; exit 75`)
	r := until(t, c, "refused", func(r Replica) bool { return strings.Contains(r.Why, "start r1: ") })
	if r.State != Dead || r.Again {
		t.Errorf("got %+v", r)
	}
	if ended(c.list()) == nil {
		t.Error("a replica that cannot be started again counts as one that may come back")
	}
}
