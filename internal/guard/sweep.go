package guard

import (
	"os"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sys/unix"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
)

// leastGap is the least time between two surveys: together they must not fill a processor.
const leastGap = 2 * time.Millisecond

// mustLook says whether somebody waits for a survey.
func (g *keeper) mustLook() bool {
	if g.purge {
		return true
	}
	for _, c := range g.ending {
		if c.pid > 0 && (c.reaped || c.killing) {
			return true
		}
	}
	return false
}

// lookSoon has the next survey come as soon as it may.
func (g *keeper) lookSoon() {
	if g.gap > leastGap {
		g.nextLook = protocol.Instant{}
	}
	g.gap = leastGap
}

// lookIfDue starts a survey, beside the loop: reading another process's memory can hang.
func (g *keeper) lookIfDue(now protocol.Instant) {
	if g.looking || !g.mustLook() || !reached(g.nextLook, now) {
		return
	}
	g.looking = true
	s, reaps := g.suspects(), g.reaps
	go func() {
		found := surveyed{survey: s.look(), reaps: reaps}
		g.surveys <- found // of capacity one, and there is one survey at a time
	}()
}

func (g *keeper) suspects() suspects {
	s := suspects{
		guard: os.Getpid(), worker: g.worker.pid,
		leaders: map[int]uint64{}, groups: map[int]uint64{}, marks: map[marks]uint64{},
		sessions: map[string]bool{}, seen: map[procID]uint64{},
	}
	for uuid := range g.sessions {
		s.sessions[uuid] = true
	}
	for id, c := range g.kids {
		s.marks[marks{string(c.key), c.session}] = id
		if c.pid == 0 {
			continue
		}
		if old := g.kids[s.groups[c.pid]]; old == nil || old.reaped {
			s.groups[c.pid] = id // a number that came round again is the living one's
		}
		if !c.reaped {
			s.leaders[c.pid] = id
		}
		for p := range c.seen {
			s.seen[p] = id
		}
	}
	return s
}

// act kills what a survey found of commands that are to end, and finds out which of them are gone.
func (g *keeper) act(s surveyed) {
	g.looking = false
	g.gap = min(max(g.gap*2, leastGap), min(max(g.lease/50, 20*time.Millisecond), 400*time.Millisecond))
	g.nextLook = Now().Add(g.gap)
	if s.err != nil {
		g.note(func(log logr.Logger) { log.Error(s.err, "Could not look for processes") })
		return
	}
	for id, c := range g.ending {
		c.left = s.owned[id]
		for _, p := range c.left {
			c.seen[p.id()] = true
		}
		g.press(c)
		if c.isGone(s.reaps == g.reaps) {
			g.gone(c)
		}
	}
	killAll(s.lapsed)
	if !g.purge {
		return
	}
	killAll(s.stray)
	if g.worker.alive() && len(s.stray) == 0 && s.reaps == g.reaps {
		g.purge = false
	}
}

// isGone says whether nothing is left of a command, after a survey that found c.left. A survey during which the guard
// reaped nobody is certain. Where another task leaves orphans all the time there is none; then several that found nothing
// must do: what none of them saw would have had to move from process to process in time with each of them.
func (c *child) isGone(certain bool) bool {
	if !c.reaped || len(c.left) > 0 {
		c.empty = 0
		return false
	}
	c.empty++
	return certain || c.empty >= 5
}

// press signals what is left of a command.
func (g *keeper) press(c *child) {
	switch {
	case c.killing:
		c.sendGroup(unix.SIGKILL)
		killAll(c.left)
	case c.stopping && c.reaped:
		for _, p := range c.left {
			if p.group != c.pid && !c.asked[p.id()] {
				c.asked[p.id()] = true
				p.signal(c.signal)
			}
		}
	}
}

func killAll(procs []proc) {
	for _, p := range procs {
		p.signal(unix.SIGKILL)
	}
}
