package cli

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/shardctl/shardctl/pkg/client"
)

// link is what ties a command to a replica that it watches, over one or several connections. These may break and come
// back, as in a rolling update. Each break is reported once. Its methods may be called concurrently.
type link struct {
	globals *Globals
	url     string
	note    io.Writer // where breaks are reported; nil: nowhere

	mu     sync.Mutex
	broken int       // connections
	since  time.Time // when the first of them broke
	stale  bool      // as the replica said last
}

// connection is one of a link. It belongs to one goroutine.
type connection struct {
	link   *link
	broken bool
}

// down says that the connection has broken.
func (c *connection) down(err error) {
	if c.broken {
		return
	}
	c.broken = true
	l := c.link
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken++; l.broken == 1 {
		l.since = l.globals.now()
		l.report("lost %s (%s); trying again", l.url, plainText(root(err).Error()))
	}
}

// up says that the connection stands.
func (c *connection) up() {
	if !c.broken {
		return
	}
	c.broken = false
	l := c.link
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken--; l.broken == 0 {
		l.report("%s answers again after %s", l.url, span(l.globals.now().Sub(l.since)))
	}
}

// lostFor is for how long the connection has been broken.
func (l *link) lostFor(now time.Time) (d time.Duration, lost bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken == 0 {
		return 0, false
	}
	return now.Sub(l.since), true
}

// report writes a line with the time of day.
func (l *link) report(format string, args ...any) {
	if l.note != nil {
		// a note on what is asked for: nothing depends on it
		_, _ = fmt.Fprintf(l.note, "%s %s\n", l.globals.now().Format(time.TimeOnly), fmt.Sprintf(format, args...))
	}
}

// options are those of a watch over a connection of the link.
func (l *link) options(f client.Filter) client.WatchOptions {
	c := &connection{link: l}
	return client.WatchOptions{Filter: f, Connected: c.up, Broken: c.down}
}

// patient are the options of a watch without which the rest is still of use. It is tried again also when it cannot
// begin, and only reported once it has begun.
func (l *link) patient() client.WatchOptions {
	o, begun := l.options(client.Filter{}), false
	up, down := o.Connected, o.Broken
	o.Patient, o.Connected = true, func() { begun = true; up() }
	o.Broken = func(err error) {
		if begun {
			down(err)
		}
	}
	return o
}

// ended is the error of a watch, nil when it ended because ctx did: ending a watch is how it is meant to end.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil //nolint:nilerr // ctx says how it ended
	}
	return err
}
