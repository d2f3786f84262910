package guard

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/shardctl/shardctl/internal/process"
)

// inbox takes what the worker says to the machine that it is for.
type inbox struct {
	*machines
	spawner *process.Spawner
	held    []*os.File // locks that are the worker's, and this process's once it has died
	greeted func()     // called with each hello
	opening func()     // called with each session that is about to be opened
}

// handle takes one message from the worker to the machine that it is for.
func (i *inbox) handle(m message) {
	switch b := m.body.(type) {
	case *hello:
		i.table.lease, i.shutdown.lease, i.shutdown.limit = b.Lease, b.Lease, b.Limit
		i.greeted()
	case *start:
		i.start(b, m)
	case *stop:
		i.do(i.table.stop(b.ID, unix.Signal(b.Signal), b.Grace, Now()))
	case *pass:
		i.do(i.table.pass(b.ID, unix.Signal(b.Signal)))
	case *renewed:
		i.leases.renew(b.Session, b.Deadlines)
	case *opening:
		i.leases.open(b.Session)
		i.opening()
	case *closed:
		i.leases.close(b.Session)
	case *remote:
		i.leases.endpoint(b.Session, b.Key, b.Until)
	case *inside:
		i.leases.ran(b.Session, b.Key, b.Over)
	case *place:
		i.held = append(i.held, m.files...)
	case *bye:
		i.shutdown.bye = true
	}
}

// start starts a command, or refuses to.
func (i *inbox) start(b *start, m message) {
	defer closeFiles(m.files)
	pid, cgroup, err := i.fork(b, m)
	if err != nil {
		i.send(refused(b.ID, err))
		return
	}
	i.table.started(b.ID, b.Key, b.Session, b.Token, pid, cgroup)
	i.send(&started{ID: b.ID, PID: pid})
}

func (i *inbox) fork(b *start, m message) (pid int, cgroup string, err error) {
	if err := i.shutdown.mayStart(); err != nil {
		return 0, "", err
	}
	if err := i.leases.mayStart(b.Session, Now()); err != nil {
		return 0, "", err
	}
	if err := i.table.mayStart(b.ID, b.Key, b.Session); err != nil {
		return 0, "", err
	}
	spec := process.Spec{Path: string(b.Path), Args: stringsOf(b.Args), Env: stringsOf(b.Env), Dir: string(b.Dir)}
	spec.SameGroup = i.shared
	files := m.files
	if b.Files&passedStdin != 0 {
		spec.Stdin, files = files[0], files[1:]
	}
	if b.Files&passedStdout != 0 {
		spec.Stdout, files = files[0], files[1:]
	}
	switch {
	case b.Files&passedStderr == 0:
	case len(files) > 0:
		spec.Stderr = files[0]
	default:
		spec.Stderr = spec.Stdout // one file for both
	}
	return i.cgroups.start(b, spec, i.spawner)
}
