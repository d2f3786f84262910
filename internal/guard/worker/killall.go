package worker

import (
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/shardctl/shardctl/internal/guard/wire"
	"github.com/shardctl/shardctl/internal/process"
)

// killFor is how long a worker that lost its guard goes on looking for processes to kill.
const killFor = 500 * time.Millisecond

// targets describes processes to be killed: their groups, the session in their environment, or their control group.
type targets struct {
	groups   map[int]bool
	sessions map[string]bool
	cgroup   process.Cgroup // empty: there is none
}

// kill kills the targets that this process can find and everything below them, again and again until none is found
// twice or the time is over. One that executes a program at that moment is not found.
func (t targets) kill(until time.Time) {
	if !process.CanFind {
		for group := range t.groups {
			process.SignalGroup(group, unix.SIGKILL)
		}
		return
	}
	if t.cgroup != "" {
		_ = t.cgroup.Kill() // what was moved out of it is found below
		defer func() {
			t.cgroup.AwaitEmpty(time.Until(until))
			_ = t.cgroup.Remove() // else the next guard that starts beside it does
		}()
	}
	for empty := 0; ; time.Sleep(5 * time.Millisecond) {
		found := t.find()
		for _, p := range found {
			p.Signal(unix.SIGKILL)
		}
		if empty++; len(found) > 0 {
			empty = 0
		}
		if empty == 2 || !time.Now().Before(until) {
			return
		}
	}
}

func (t targets) find() []process.Proc {
	all, err := process.All()
	if err != nil {
		return nil
	}
	tree, self := process.TreeOf(all), os.Getpid()
	var found []process.Proc
	taken := map[int]bool{self: true}
	for _, p := range all {
		if p.Zombie || p.PID == self || !t.match(p) {
			continue
		}
		for _, q := range tree.Below(p) {
			if !taken[q.PID] {
				taken[q.PID] = true
				found = append(found, q)
			}
		}
	}
	return found
}

func (t targets) match(p process.Proc) bool {
	if t.groups[p.Group] {
		return true
	}
	m, _ := wire.MarksOf(p.PID)
	return t.sessions[m.Session]
}
