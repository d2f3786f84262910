package guard

import (
	"golang.org/x/sys/unix"

	"github.com/shardctl/shardctl/internal/process"
)

// handle takes one message from the worker to the machine that it is for.
func (l *loop) handle(m message) {
	switch b := m.body.(type) {
	case *hello:
		l.table.lease, l.shutdown.lease, l.shutdown.limit = b.Lease, b.Lease, b.Shutdown
		l.nextPing = Now() // the worker counts silence by this lease from now on
		l.marking.greeted()
	case *start:
		l.start(b, m)
	case *stop:
		l.do(l.table.stop(b.ID, unix.Signal(b.Signal), b.Grace, Now()))
	case *renewed:
		l.leases.renew(b.Session, b.Deadlines)
	case *opening:
		l.leases.open(b.Session)
	case *closed:
		l.leases.close(b.Session)
	case *remote:
		l.leases.endpoint(b.Session, b.Key, b.Until)
	case *place:
		l.held = append(l.held, m.files...)
	case *bye:
		l.shutdown.bye = true
	}
}

// start starts a command, or refuses to.
func (l *loop) start(b *start, m message) {
	defer closeFiles(m.files)
	pid, err := l.fork(b, m)
	if err != nil {
		l.send(refused(b.ID, err))
		return
	}
	l.table.started(b.ID, b.Key, b.Session, b.Token, pid)
	l.send(&started{ID: b.ID, PID: pid})
}

func (l *loop) fork(b *start, m message) (int, error) {
	if err := l.shutdown.mayStart(); err != nil {
		return 0, err
	}
	if err := l.leases.mayStart(b.Session, Now()); err != nil {
		return 0, err
	}
	if err := l.table.mayStart(b.ID, b.Key, b.Session); err != nil {
		return 0, err
	}
	spec := process.Spec{Path: string(b.Path), Args: stringsOf(b.Args), Env: stringsOf(b.Env), Dir: string(b.Dir)}
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
	return l.spawner.Start(spec)
}
