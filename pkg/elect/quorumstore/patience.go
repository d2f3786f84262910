package quorumstore

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
)

// patience is a timer for one message.
type patience struct {
	timer   *time.Timer
	try     int
	hurried bool
}

func newPatience(try int) *patience {
	try = min(try, 6)
	return &patience{timer: time.NewTimer(patienceAtFirst << try), try: try}
}

func (p *patience) over() <-chan time.Time { return p.timer.C }

// hurry says that a server has failed.
func (p *patience) hurry() {
	if !p.hurried {
		p.hurried = true
		p.timer.Reset(patienceAfterward << p.try)
	}
}

func (p *patience) stop() { p.timer.Stop() }
