package program

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/process"
	"github.com/shardctl/shardctl/test/testprocess"
)

const deathLease = 3 * time.Second

// held is a command that holds the lock with that lease, and leaves a process that is no child of its own.
func (r lockRig) held() (l *lockRun, child string) {
	r.t.Helper()
	l = r.sh(`(setsid sleep 1000 & echo $! > child); echo $$ > leader; sleep 1000`, "--lease", deathLease.String())
	l.wrote("leader")
	return l, r.wrote("child")
}

// worker is the process that the guard started.
func (l *lockRun) worker(leader string) int {
	l.rig.t.Helper()
	var worker int
	l.rig.await("the worker", func() error {
		all, err := process.All()
		i := slices.IndexFunc(all, func(p process.Proc) bool {
			return p.Parent == l.cmd.Process.Pid && strconv.Itoa(p.PID) != leader &&
				process.Environ(p.PID, "SHARDCTL_GUARD")[0] != ""
		})
		if err != nil || i < 0 {
			return errors.New("the guard has no such child")
		}
		worker = all[i].PID
		return nil
	})
	return worker
}

// alive ends with 3 when neither of two processes lives. What waits to be reaped is dead.
const alive = `cat /proc/%s/status /proc/%s/status 2> /dev/null | grep '^State:' | grep -v Z || exit 3`

// Whichever of its two processes is killed or stands still: the command ends with all that it started, before others
// have the lock. Who waits has it within a lease and a second, and within a second where the guard lives to say so. Of
// a guard that stands still the worker learns after a quarter of the lease, and renews until then.
func TestLockHolderDies(t *testing.T) {
	onLockStores(t, func(r lockRig) {
		for _, tt := range []struct {
			what   string
			signal syscall.Signal
			worker bool
			code   int
			within time.Duration
		}{
			{"guard killed", syscall.SIGKILL, false, -9, deathLease + time.Second},
			{"worker killed", syscall.SIGKILL, true, 75, time.Second},
			{"worker crashed", syscall.SIGABRT, true, 75, time.Second},
			{"guard frozen", syscall.SIGSTOP, false, 0, deathLease/4 + deathLease + time.Second},
			{"worker frozen", syscall.SIGSTOP, true, 75, deathLease + time.Second},
		} {
			r.t.Run(tt.what, func(t *testing.T) {
				r := lockRig{t, r.uri, t.TempDir()}
				l, child := r.held()
				leader := r.wrote("leader")
				pid := l.cmd.Process.Pid
				if tt.worker {
					pid = l.worker(leader)
				}
				next := r.sh(fmt.Sprintf(alive, leader, child), "--lease", deathLease.String())
				r.queued(1)
				stood, began := testprocess.WatchStalls(t), time.Now()
				if err := syscall.Kill(pid, tt.signal); err != nil {
					t.Fatal(err)
				}
				next.code()
				took := time.Since(began).Round(time.Millisecond)
				t.Logf("the next had it %v after the death, with a lease of %v", took, deathLease)
				if took > tt.within+stood() {
					t.Errorf("the next had it %v after the death, want %v at most, and %v of stalls", took, tt.within,
						stood())
				}
				if code := next.code(); code != 3 {
					t.Errorf("code %d: something of the command lived when the next had the lock", code)
				}
				if tt.code == 0 {
					l.signal(syscall.SIGCONT)
					tt.code = 75
				}
				if code := l.code(); code != tt.code {
					t.Errorf("code %d, want %d: %s", code, tt.code, l.errs.String())
				}
			})
		}
	})
}
