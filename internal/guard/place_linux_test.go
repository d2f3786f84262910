package guard

import (
	"errors"
	"syscall"
	"testing"
)

// While the guard ends the tasks of a worker that died, no other process may take their place.
func TestPlaceIsHeldByTheGuardAsWell(t *testing.T) {
	dir := t.TempDir()
	r := newReplica(t, long)
	r.do(deed{Do: "place", Name: dir})
	r.do(deed{Do: "sync"})
	r.expect("synced", "")
	must(t, syscall.Kill(r.cmd.Process.Pid, syscall.SIGSTOP), syscall.Kill(r.worker, syscall.SIGKILL))
	until(t, "the worker is dead", func() bool { return !exists(r.worker) })
	if _, _, err := takePlace(dir, here); !errors.Is(err, ErrNotInPlace) {
		t.Errorf("taken while the guard is there: %v", err)
	}
	must(t, syscall.Kill(r.cmd.Process.Pid, syscall.SIGCONT))
	r.expect("marked", "")
	r.ended()
	until(t, "the place is free", func() bool {
		p, _, err := takePlace(dir, here)
		if err == nil {
			p.Release()
		}
		return err == nil
	})
}
