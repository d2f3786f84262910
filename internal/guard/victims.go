package guard

import (
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/shardctl/shardctl/internal/process"
	"github.com/shardctl/shardctl/pkg/elect/protocol"
)

// victims describes processes to be killed: their groups, the session in their environment, or their control group.
type victims struct {
	groups   map[int]bool
	sessions map[string]bool
	cgroup   process.Cgroup // empty: there is none
}

// killAll kills the victims that this process can find and everything below them, again and again until none is found
// twice or the time is over. One that executes a program at that moment is not found.
func (v victims) killAll(until protocol.Instant) {
	if !process.CanFind {
		for group := range v.groups {
			process.SignalGroup(group, unix.SIGKILL)
		}
		return
	}
	if v.cgroup != "" {
		_ = v.cgroup.Kill() // what was moved out of it is found below
		defer func() {
			v.cgroup.AwaitEmpty(holderLeft(until, Now()))
			_ = v.cgroup.Remove() // else the next guard that starts beside it does
		}()
	}
	for quiet := 0; ; {
		found := v.find()
		for _, p := range found {
			p.Signal(unix.SIGKILL)
		}
		if quiet++; len(found) > 0 {
			quiet = 0
		}
		if quiet == 2 || reached(until, Now()) {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (v victims) find() []process.Proc {
	all, err := process.All()
	if err != nil {
		return nil
	}
	tree, self := process.TreeOf(all), os.Getpid()
	var found []process.Proc
	taken := map[int]bool{self: true}
	for _, p := range all {
		if p.Zombie || p.PID == self || !v.match(p) {
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

func (v victims) match(p process.Proc) bool {
	if v.groups[p.Group] {
		return true
	}
	m, _ := marksOf(p.PID)
	return v.sessions[m.session]
}
