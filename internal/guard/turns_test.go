package guard

import (
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr"
	"golang.org/x/sys/unix"

	"github.com/shardctl/shardctl/internal/process"
)

// One turn of the loop does a bounded part of what a task with thousands of processes asks for: the worker takes a
// quarter of the lease without a sign of the guard for its death.
func TestOneTurnIsBounded(t *testing.T) {
	const many = 10_000
	const nobody = 1 << 30 // above every process number that there is
	rig := func(collect func(bool) (int, unix.WaitStatus, error)) *children {
		x := newExecutor(Config{Log: logr.Discard(), noCgroups: true})
		x.core.commands = commandsOf(2)
		return &children{x: x, collect: collect, list: func() ([]int, error) { return nil, nil }}
	}

	t.Run("children that end", func(t *testing.T) {
		left, turns := many, 1
		c := rig(func(bool) (int, unix.WaitStatus, error) {
			if left == 0 {
				return 0, 0, process.ErrChildless
			}
			left--
			return 1000 + left, exit(0), nil
		})
		for c.reap() {
			if reaped := many - left; reaped > turns*maxReaped {
				t.Fatalf("%d children were collected in %d turns", reaped, turns)
			}
			turns++
		}
		if left > 0 || !c.childless {
			t.Errorf("%d children are left, childless: %v", left, c.childless)
		}
	})

	t.Run("children to look at", func(t *testing.T) {
		c := rig(func(bool) (int, unix.WaitStatus, error) { return 0, 0, nil })
		pids := make([]int, many)
		for i := range pids {
			pids[i] = nobody + i
			c.x.core.commands.byID[2].traces.seen[process.ID{PID: pids[i]}] = true // so that a look decides
		}
		c.list = func() ([]int, error) { return pids, nil }
		c.x.core.commands.reaped(10, exit(0), at(0))
		c.reap()
		if c.x.core.commands.byID[1] == nil || !c.x.core.commands.scanDue(at(second)) {
			t.Error("they were looked at in the loop, and no scan is to come")
		}
	})

	t.Run("processes to signal", func(t *testing.T) {
		synctest.Test(t, func(*testing.T) {
			c := rig(nil)
			procs := make([]process.Proc, many)
			for i := range procs {
				procs[i] = process.Proc{PID: nobody + i}
			}
			for range 3 { // nobody takes them, and the loop goes on
				c.x.do([]effect{signalProcs{1, procs, unix.SIGKILL}, signalProcs{1, procs[:1], unix.SIGTERM}})
			}
			if n := len(c.x.signaller.queue); n != 4 {
				t.Errorf("%d wait, want one SIGKILL and each of the others", n)
			}
			go c.x.signaller.run()
			synctest.Wait()
			if r := <-c.x.signaller.refused; r.id != 1 || len(r.pids) > 0 {
				t.Errorf("of processes that are not there some refused: %v", r)
			}
			synctest.Wait()
			if n := len(c.x.signaller.queue); n != 0 {
				t.Errorf("%d wait still", n)
			}
			c.x.signaller.close()
		})
	})
}
