package quorum

import (
	"errors"
	"time"
)

var errSlow = errors.New("too few servers have answered so far")

// How long a message waits for servers that have not answered, on the first try. It doubles with each try: servers may
// be slow. It is shorter once a server has failed, since that one may be back for the next try.
const (
	patienceAtFirst   = 50 * time.Millisecond
	patienceAfterward = 10 * time.Millisecond
	maxDoublings      = 10 // to 10 s: a long list, or a slow machine, may take seconds
)

// grace is how long a message waits for the other servers once a majority has answered, and differs.
const grace = 5 * time.Millisecond

// patience is a timer for one message. Nil waits for ever.
type patience struct {
	timer   *time.Timer
	try     int
	hurried bool
	short   bool
}

func newPatience(try int) *patience {
	try = min(try, maxDoublings)
	return &patience{timer: time.NewTimer(patienceAtFirst << try), try: try}
}

func (p *patience) over() <-chan time.Time {
	if p == nil {
		return nil
	}
	return p.timer.C
}

// hurry says that a server has failed.
func (p *patience) hurry() {
	if p != nil && !p.hurried {
		p.hurried = true
		p.timer.Reset(patienceAfterward << p.try)
	}
}

// shorten says that a majority has answered, and that they differ: the others may still help, for a moment.
func (p *patience) shorten() {
	if !p.short {
		p.short, p.hurried = true, true
		p.timer.Reset(grace)
	}
}

func (p *patience) stop() { p.timer.Stop() }
