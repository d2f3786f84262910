package etcd

import (
	"slices"
	"strings"
	"sync"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/dbstore"
)

// documents reads what keys hold, and remembers it. Its methods may be called concurrently.
type documents struct {
	keys  keys
	known *known
}

// state is what a key holds, remembered from now on. doc is nil where there is none that can be read.
func (d *documents) state(kind driver.Kind, id string, found []*mvccpb.KeyValue) state {
	key := d.keys.doc(kind, id)
	if len(found) == 0 {
		d.known.forget(key)
		return state{}
	}
	s := state{mod: found[0].ModRevision}
	if doc, err := dbstore.Decode(kind, id, found[0].Value); err == nil {
		s.doc = &doc
	} else {
		s.malformed = err
	}
	d.known.learn(key, s)
	return s
}

// noted is a note as an event; ok is false for what is none.
func (d *documents) noted(kv *mvccpb.KeyValue) (e dbstore.Event, ok bool) {
	fields := strings.SplitN(string(kv.Value), separator, 4)
	if len(fields) != 4 || !driver.Kind(fields[0]).Valid() || fields[1] == "" {
		return e, false
	}
	e.About = driver.Doc{Kind: driver.Kind(fields[0]), ID: fields[1], Group: fields[2]}
	if doc, err := dbstore.Decode(e.About.Kind, e.About.ID, []byte(fields[3])); err == nil {
		d.known.learn(d.keys.doc(doc.Kind, doc.ID), state{mod: kv.ModRevision, doc: &doc})
		e.Doc, e.About = &doc, doc
	}
	return e, true
}

// note is the value that notifies watchers of a change: kind, ID, group, and the document as the change left it, empty
// when deleted. The writer decides whether watchers are notified: it knows the document as it was before. So heartbeats
// and claims never reach a watcher, and no watch has to ask for previous values.
func note(named driver.Doc, old, d *driver.Doc) string {
	group, value := named.Group, ""
	switch {
	case d != nil:
		group, value = d.Group, string(dbstore.Encode(*d))
	case old != nil:
		group = old.Group
	}
	return strings.Join([]string{string(named.Kind), named.ID, group, value}, separator)
}

// maxKnown bounds how many documents are remembered. Those of a replica with 10,000 keys fit.
const maxKnown = 20_000

// state is a document as it was at a modification revision of its key.
type state struct {
	mod int64       // 0: there is no key
	doc *driver.Doc // nil: absent, or unreadable

	malformed error // why what is there is no document
}

// known remembers the newest state of documents that this process has seen, without bodies that no change needs. Its
// methods may be called concurrently.
type known struct {
	mu  sync.Mutex
	all map[string]state // by key
}

func newKnown() *known { return &known{all: map[string]state{}} }

func (k *known) get(key string) (state, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s, ok := k.all[key]
	return s, ok
}

// learn remembers a state, unless a newer one is remembered.
func (k *known) learn(key string, s state) {
	if s.doc != nil {
		own := *s.doc // the caller's may change
		own.Body = nil
		if own.Kind == driver.KindGroup { // a counter that is raised keeps its body
			own.Body = slices.Clone(s.doc.Body)
		}
		s.doc = &own
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	old, there := k.all[key]
	if there && old.mod > s.mod {
		return
	}
	if !there && len(k.all) >= maxKnown {
		k.shrink()
	}
	k.all[key] = s
}

// shrink forgets a few, whichever come first.
func (k *known) shrink() {
	n := maxKnown / 100
	for key := range k.all {
		delete(k.all, key)
		if n--; n == 0 {
			return
		}
	}
}

// forget forgets a document: what it is now is not known.
func (k *known) forget(key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.all, key)
}
