package guard

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"github.com/shardctl/shardctl/internal/process"
)

// reap collects every child that has ended, its own and those that came to it as orphans, and then looks at those it
// still has: between the two nothing is reaped, so that the list is exact.
func (l *loop) reap() {
	for {
		pid, status, err := process.ReapAny()
		l.childless = errors.Is(err, process.ErrChildless)
		if err != nil || pid == 0 {
			break
		}
		if pid == l.worker {
			l.do(l.shutdown.workerExited(statusCode(status), Now()))
		} else {
			l.do(l.table.reaped(pid, status, Now()))
		}
	}
	groups, wanted := l.table.wantsSight()
	if !wanted {
		return
	}
	children, err := l.cfg.children()
	if err != nil {
		return // there is no such list here: the survey that is due finds out
	}
	s := sight{full: map[int]bool{}}
	for _, pid := range l.table.strangers(children, l.worker) {
		p, ok := process.Read(pid)
		if !ok {
			p = process.Proc{PID: pid} // it cannot be seen, but is not gone
		}
		s.strangers = append(s.strangers, p)
	}
	for _, group := range groups {
		s.full[group] = !process.GroupEmpty(group)
	}
	l.do(l.table.sighted(s))
}

// survey looks through all processes, asynchronously: reading another process's memory can hang.
func (l *loop) survey() {
	s, reaps := l.table.suspects(), l.table.reaps
	s.guard, s.worker, s.sessions = os.Getpid(), l.worker, l.leases.names()
	go func() {
		l.surveys <- surveyed{survey: s.look(), reaps: reaps} // of capacity one, and there is one survey at a time
	}()
}

func alive(pids []int) []int {
	var out []int
	for _, pid := range pids {
		if !errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
			out = append(out, pid)
		}
	}
	return out
}
