package linearizability

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// document is one document of a round, and its history so far.
type document struct {
	kind     driver.Kind
	id       string
	deleted  bool // it may be deleted, and created again
	mu       sync.Mutex
	history  []access
	newest   version // the newest that any reply showed: clients talk to each other, as replicas do over HTTP
	problems []string
}

func (d *document) note(a access) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.history = append(d.history, a)
	if p := a.problem(); p != "" {
		d.problems = append(d.problems, fmt.Sprintf("%s: client %d, %v", p, a.client, a))
	}
	switch {
	case a.shown && a.found == nil:
		d.newest = absent
	case a.shown && a.found.Rev > d.newest.Rev:
		d.newest = versionOf(a.found)
	case a.status == driver.Applied && a.verb == drops:
		d.newest = absent
	case a.status == driver.Applied && a.verb == puts && a.written().Rev > d.newest.Rev:
		d.newest = a.written()
	}
}

func (d *document) latest() version {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.newest
}

// ledger knows every document as it was sent, so that what is shown can be compared with it.
type ledger struct {
	mu      sync.Mutex
	sent    map[driver.WriterID]driver.Doc
	highest int64 // revision of a creation
}

func (l *ledger) enter(d driver.Doc) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent[d.WriterID] = d
}

// rise is a revision above every one that a document of this round has had. Locks do this by the store's clock.
func (l *ledger) rise() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.highest += 1000
	return l.highest
}

// check says what is wrong with a document as it was shown: it never was, or not so.
func (l *ledger) check(d driver.Doc) string {
	if d.Kind == driver.KindGroup {
		return ""
	}
	l.mu.Lock()
	sent, ok := l.sent[d.WriterID]
	l.mu.Unlock()
	switch {
	case !ok:
		return fmt.Sprintf("%v was shown, and was never sent", versionOf(&d))
	case sent.Rev != d.Rev || sent.ID != d.ID || sent.Group != d.Group || sent.Session != d.Session ||
		sent.Next != d.Next ||
		sent.Suspended != d.Suspended || sent.State != d.State || sent.Count != d.Count ||
		!bytes.Equal(sent.Body, d.Body):
		return fmt.Sprintf("shown as %+v, sent as %+v", d, sent)
	}
	return ""
}

// client is one user of a store of its own.
type client struct {
	n      int
	name   string
	store  store.Store
	random *rand.Rand
	round  *round
	seq    int64
	known  map[*document]version
}

// round is some documents that all clients use for a while.
type round struct {
	group  string
	docs   []*document
	ledger ledger
	calls  int // of each client
}

// hot is how many documents are in use at a time, so that the clients meet.
const hot = 8

// choose picks up to most documents of those in use now.
func (c *client) choose(at, most int, fits func(*document) bool) []*document {
	first := at * len(c.round.docs) / c.round.calls
	var some []*document
	for range 1 + c.random.IntN(most) {
		d := c.round.docs[(first+c.random.IntN(hot))%len(c.round.docs)]
		if fits(d) && !slices.Contains(some, d) {
			some = append(some, d)
		}
	}
	return some
}

// run makes the client's calls of one round.
func (c *client) run(ctx context.Context) {
	c.known = map[*document]version{}
	for at := range c.round.calls {
		if ctx.Err() != nil {
			return
		}
		switch dice := c.random.IntN(100); {
		case dice < 30:
			c.read(ctx, at)
		case dice < 36:
			c.list(ctx)
		default:
			c.write(ctx, at)
		}
	}
}

// hurried ends some calls early, and lets some wait for so long that an election passes.
func (c *client) hurried(ctx context.Context) (context.Context, context.CancelFunc) {
	switch c.random.IntN(8) {
	case 0:
		return context.WithTimeout(ctx, upTo(c.random, 10*time.Millisecond))
	case 1:
		return context.WithTimeout(ctx, 4*time.Second)
	}
	return context.WithTimeout(ctx, 400*time.Millisecond)
}

func (c *client) read(ctx context.Context, at int) {
	kind := c.round.docs[0].kind
	if c.random.IntN(6) == 0 {
		kind = driver.KindGroup
	}
	docs := c.choose(at, 4, func(d *document) bool { return d.kind == kind })
	if len(docs) == 0 {
		return
	}
	ids := make([]string, 0, len(docs))
	for _, d := range docs {
		ids = append(ids, d.id)
	}
	ctx, cancel := c.hurried(ctx)
	defer cancel()
	call := now()
	res, err := c.store.Read(ctx, kind, ids...)
	if err == nil {
		c.shown(reads, docs, res, call, now())
	}
}

func (c *client) list(ctx context.Context) {
	ctx, cancel := c.hurried(ctx)
	defer cancel()
	call := now()
	kind := c.round.docs[0].kind
	res, err := c.store.List(ctx, kind, driver.Query{Group: c.round.group})
	if err == nil {
		var all []*document
		for _, d := range c.round.docs {
			if d.kind == kind {
				all = append(all, d)
			}
		}
		c.shown(lists, all, res, call, now())
	}
}

// shown notes what a read or list showed of docs.
func (c *client) shown(v verb, docs []*document, res driver.Reply, call, end int64) {
	found := res.Docs
	for _, d := range docs {
		a := access{client: c.n, verb: v, call: call, last: call, end: end, tries: 1, shown: true, lineage: res.Lineage}
		if at := slices.IndexFunc(found, func(f driver.Doc) bool { return f.ID == d.id }); at >= 0 {
			a.found = &found[at]
		}
		if v == lists && a.found == nil {
			continue // it may be stale, or the document not be there
		}
		c.note(d, a)
	}
}

func (c *client) note(d *document, a access) {
	if a.shown {
		c.known[d] = versionOf(a.found)
	}
	d.note(a)
	if a.found == nil {
		return
	}
	if p := c.round.ledger.check(*a.found); p != "" {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.problems = append(d.problems, fmt.Sprintf("client %d, %v: %s", c.n, a, p))
	}
}

// pending is a write on its way to an outcome.
type pending struct {
	doc *document
	a   access
}

// write changes some documents, and repeats what stays unknown, as the protocol does, most of the time.
func (c *client) write(ctx context.Context, at int) {
	most := 1
	if c.random.IntN(3) == 0 {
		most = 6
	}
	var all []*pending
	for _, d := range c.choose(at, most, func(*document) bool { return true }) {
		all = append(all, &pending{doc: d, a: c.change(d)})
	}
	for try := 1; len(all) > 0; try++ {
		c.send(ctx, all)
		last := try == 6 || c.random.IntN(8) == 0 || ctx.Err() != nil
		all = slices.DeleteFunc(all, func(p *pending) bool {
			unsure := p.a.status == driver.Unknown
			if !unsure || last || p.a.alone {
				c.finish(p)
			}
			if p.a.alone {
				p.a.call, p.a.tries = 0, 0
			}
			return !unsure || last || p.a.verb == increments
		})
	}
}

func (c *client) finish(p *pending) {
	c.note(p.doc, p.a)
	if p.a.status == driver.Applied && p.a.verb == puts {
		c.known[p.doc] = p.a.written()
	}
	if p.a.status == driver.Applied && p.a.verb == drops {
		c.known[p.doc] = absent
	}
}

// send makes one try of each.
func (c *client) send(ctx context.Context, all []*pending) {
	changes := make([]driver.Change, 0, len(all))
	for _, p := range all {
		changes = append(changes, p.a.change)
	}
	ctx, cancel := c.hurried(ctx)
	defer cancel()
	call := now()
	outs, err := c.store.Apply(ctx, changes...)
	end := now()
	if err != nil {
		panic(fmt.Sprintf("the store takes none of %+v: %v", changes, err))
	}
	for i, p := range all {
		a := &p.a
		if a.tries++; a.tries == 1 {
			a.call = call
		}
		a.last, a.end, a.status, a.lineage = call, end, outs[i].Status, outs[i].Lineage
		a.found, a.shown = outs[i].Doc, a.status == driver.Refused || a.status == driver.Overtaken
	}
}

// change makes up a change of d, from what this client or another has seen of it last, or long ago.
func (c *client) change(d *document) access {
	base := c.known[d]
	if c.random.IntN(2) == 0 {
		base = d.latest()
	}
	a := access{
		client: c.n, verb: puts, alone: d.deleted || d.kind == driver.KindGroup,
		change: driver.Change{IfRev: base.Rev, Doc: driver.Doc{Kind: d.kind, ID: d.id}},
	}
	doc := &a.change.Doc
	c.seq++
	doc.WriterID = driver.WriterID{Session: c.name, Seq: c.seq}
	switch {
	case d.kind == driver.KindGroup:
		a.verb, a.change.Op, a.change.IfRev = increments, driver.Increment, 0
		return a
	case d.deleted && base != absent && c.random.IntN(4) == 0:
		a.verb, a.change.Op = drops, driver.Delete
		return a
	case base == absent:
		doc.Rev = c.round.ledger.rise()
	default:
		doc.Rev = base.Rev + 1
	}
	c.fill(doc)
	c.round.ledger.enter(*doc)
	return a
}

// fill gives a document contents that no other has.
func (c *client) fill(doc *driver.Doc) {
	doc.Group, doc.Count, doc.Suspended = c.round.group, c.seq, c.random.IntN(2) == 0
	doc.Body = fmt.Appendf(nil, `{"by":"%s/%d"}`, c.name, c.seq)
	if c.random.IntN(2) == 0 {
		doc.Session, doc.Next, doc.State = c.name, fmt.Sprint("next ", c.seq), fmt.Sprint("state ", c.seq)
	}
}
