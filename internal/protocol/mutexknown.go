package protocol

import (
	"hash/fnv"
	"slices"
	"strconv"
	"time"
)

// The shortest pause of a process whose new tickets were refused, and how often it is doubled at most.
const (
	pauseUnit  = 2 * time.Millisecond
	mostPauses = 5
)

// pause is how long new tickets wait after so many refusals in a row. It differs between processes, and from one write
// to the next.
func pause(session string, seq int64, refusals int) time.Duration {
	h := fnv.New32a()
	_, _ = h.Write([]byte(session + strconv.FormatInt(seq, 10)))
	return pauseUnit * time.Duration(1+h.Sum32()%(1<<min(refusals, mostPauses)))
}

// MutexCalls are calls in the order of asking.
type MutexCalls []MutexCall

func (c MutexCalls) named(claim string) *MutexCall {
	for i := range c {
		if c[i].Claim == claim {
			return &c[i]
		}
	}
	return nil
}

// few is how many calls are searched one by one. More have an index: a thousand times a thousand names take a while.
const few = 16

// byClaim finds calls by their claims, for as long as there are no others.
func (c MutexCalls) byClaim() func(claim string) *MutexCall {
	if len(c) <= few {
		return c.named
	}
	at := make(map[string]*MutexCall, len(c))
	for i := range c {
		at[c[i].Claim] = &c[i]
	}
	return func(claim string) *MutexCall { return at[claim] }
}

func (c MutexCalls) without(claim string) MutexCalls {
	return slices.DeleteFunc(c, func(c MutexCall) bool { return c.Claim == claim })
}

// looks: something begins that will show the document.
func (c MutexCalls) looks() {
	for i := range c {
		c[i].Look = max(c[i].Look, Looking)
	}
}

// looked: what began since they asked has shown the document, at this revision. None has seen less than one that waits
// before it, also where the document was deleted between them.
func (c MutexCalls) looked(rev int64) {
	for i := range c {
		if c[i].Look == Looking {
			c[i].Look, c[i].Seen = Looked, rev
		}
		if c[i].Phase == CallWaiting {
			rev = max(rev, c[i].Seen)
		}
	}
}

// Behind says whether the document, as it was seen since a call asked, has others who are before it.
func (x Mutex) Behind(claim string) bool {
	c := x.Calls.named(claim)
	others := func(h MutexHolder) bool { return h.Claim != claim }
	return c != nil && c.Look == Looked &&
		(slices.ContainsFunc(x.Doc.Holders, others) || x.Doc.ticket(claim) > 0 || x.Doc.Hold != MutexHold{})
}

// knows takes the document as it is now.
func (x Mutex) knows(d MutexDoc, now Instant) Mutex {
	x.Known, x.Doc = true, d
	if !d.Hold.Same(x.Seen) {
		x.SeenAt = now
	}
	x.Seen = d.Hold
	return x
}

// wants asks for the sessions that a call here waits for, or may pass the mutex on to. It forgets those that the
// document does not name.
func (x Mutex) wants() (_ Mutex, asked []string) {
	if !x.Known {
		return x, nil
	}
	var named []string
	x.Doc.Sessions(func(session string) { named = append(named, session) })
	gone := func(session string) bool { return !slices.Contains(named, session) }
	for _, known := range []*[]string{&x.Sessions.Dead, &x.Sessions.Wanted, &x.Sessions.Alive} {
		if slices.ContainsFunc(*known, gone) {
			*known = slices.DeleteFunc(slices.Clone(*known), gone)
		}
	}
	for _, session := range named[:x.concerns()] {
		known := &x.Sessions
		if session != x.Session && !slices.Contains(known.Dead, session) && !slices.Contains(known.Wanted, session) {
			x.Sessions.Wanted = append(slices.Clip(x.Sessions.Wanted), session)
			asked = append(asked, session)
		}
	}
	return x, asked
}

// unseen are the sessions named by the document of which it is not known yet whether they live.
func (x Mutex) unseen() []string {
	var names []string
	known := x.Sessions
	x.Doc.Sessions(func(session string) {
		if session != x.Session && !slices.Contains(known.Dead, session) && !slices.Contains(known.Alive, session) {
			names = append(names, session)
		}
	})
	return names
}

// concerns is how many of the holders and tickets, from the first, matter to the calls of this process.
func (x Mutex) concerns() int {
	switch {
	case len(x.Calls) == 0:
		return 0
	case x.Running() > 0:
		return x.Doc.entries() // the release is to go to one that lives
	case slices.ContainsFunc(x.Calls, func(c MutexCall) bool { return c.Request.Try }):
		return x.Doc.entries() // it would be the last
	}
	last, named := 0, x.Calls.byClaim()
	for i, t := range x.Doc.Queue {
		if named(t.Claim) != nil {
			last = i + 1
		}
	}
	return len(x.Doc.Holders) + last
}
