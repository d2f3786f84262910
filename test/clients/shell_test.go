package clients_test

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// runs are the fields of a line of the shell's commands: which run began, and its process.
func (a *app) runs(key string, token int) (pid int) {
	a.t.Helper()
	want := fmt.Sprintf("begin %s %d", key, token)
	line := a.line(want)
	if n, err := fmt.Sscanf(line, want+" %d", &pid); err != nil || n != 1 {
		a.t.Fatalf("it says %q, want %q and a pid", line, want)
	}
	return pid
}

func gone(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, 0); err == nil {
		t.Errorf("process %d is still there", pid)
	}
}

// TestShell: the example in shell keeps to the rules with curl and jq.
func TestShell(t *testing.T) {
	need(t, "bash", "curl", "jq")
	command := filepath.Join(t.TempDir(), "work")
	script := []byte("#!/bin/sh\necho begin \"$1\" $2 $$\nexec sleep 600\n")
	if err := os.WriteFile(command, script, 0o700); err != nil {
		t.Fatal(err)
	}
	n, address := newNetwork(t)
	a := start(t, language{name: "shell"}, []string{"../../examples/application/worker.sh", command}, address)

	k := n.hub.give("work/größe 1", 1, nil)
	pid := a.runs("work/größe 1", 1)
	k.take()
	gone(t, pid)

	k = n.hub.give("work/one", 2, nil)
	pid = a.runs("work/one", 2)
	n.hub.renews(false)
	k.free()
	gone(t, pid)
	n.hub.renews(true)

	old := n.hub.give("work/one", 3, nil)
	pid = a.runs("work/one", 3)
	now := newHub(t, "two")
	k = now.give("work/one", 4, nil)
	n.set(func() { n.hub = now })
	next := a.runs("work/one", 4)
	gone(t, pid)
	a.signal(syscall.SIGTERM)
	k.free()
	gone(t, next)
	old.stop(nil)
	old.free()
}
