package zookeeper

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/go-zookeeper/zk"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/dbstore"
)

// cache is the documents of one kind as this process has read them. ZooKeeper cannot search, and a list made of a
// request for each document would cost thousands of requests. So the index is read, whose names say at which revision
// each document is, and then only the documents that are new.
//
// A directory of the index is read again after its watch has fired. A watch's event comes before the answer to any
// later request that would show the change (ZooKeeper Programmer's Guide, "ZooKeeper Watches"). So one request says
// that nothing has changed, and a refreshed cache is as new as the server at hand.
type cache struct {
	*access
	kind    driver.Kind
	changed func(kind driver.Kind, old, d *driver.Doc) // gets what each refresh found
	busy    chan struct{}                              // held by the refresh under way
	buckets []bucket
	looked  atomic.Int64 // names and documents read, for tests

	mu         sync.RWMutex
	docs       map[string]*driver.Doc       // by their znodes' names; no one changes a document
	unreadable map[string]driver.Unreadable // what is there and is no document, by the same names
}

// bucket is one directory of the index.
type bucket struct {
	path       string
	stale      atomic.Bool      // its watch has fired
	unsettled  atomic.Bool      // one of its documents is not as the index says, was not read yet, or cannot be read
	generation uint64           // in which it was read and its watch was set
	revs       map[string]int64 // by name, as the index had them
}

func newCache(a *access, kind driver.Kind, changed func(driver.Kind, *driver.Doc, *driver.Doc)) *cache {
	m := &cache{
		access: a, kind: kind, changed: changed, busy: make(chan struct{}, 1),
		buckets: make([]bucket, buckets(kind)), docs: map[string]*driver.Doc{},
		unreadable: map[string]driver.Unreadable{},
	}
	for i := range m.buckets {
		m.buckets[i].path = a.index(kind, i)
		m.buckets[i].stale.Store(true)
	}
	return m
}

// refresh makes the cache as new as the server at hand was at some time after the call.
func (m *cache) refresh(ctx context.Context) error {
	select {
	case m.busy <- struct{}{}:
		defer func() { <-m.busy }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	generation := m.client.generation.Load()
	if _, err := m.get(ctx, m.barrierPath()); err != nil { // now every event from before has come
		return err
	}
	if err := m.learnBase(ctx); err != nil {
		return err
	}
	var stale, look []*bucket
	for i := range m.buckets {
		b := &m.buckets[i]
		if b.stale.Load() || b.generation != generation {
			stale = append(stale, b)
			look = append(look, b)
		} else if b.unsettled.Load() {
			look = append(look, b)
		}
	}
	errs := make([]error, len(stale))
	each(len(stale), func(i int) { errs[i] = m.list(ctx, stale[i], generation) })
	if err := firstOf(errs); err != nil {
		return err
	}
	return m.load(ctx, look)
}

// list reads one directory of the index and sets its watch.
func (m *cache) list(ctx context.Context, b *bucket, generation uint64) error {
	b.stale.Store(false) // before the request: the event may come at once
	names, err := m.children(ctx, b.path, true)
	if err != nil {
		b.stale.Store(true)
		if errors.Is(err, zk.ErrNoNode) { // somebody deleted it
			m.forget(b, nil)
			b.revs = nil
			return nil
		}
		return err
	}
	m.looked.Add(int64(len(names)))
	revs := make(map[string]int64, len(names))
	for _, entry := range names {
		if name, rev, ok := splitEntry(entry); ok {
			revs[name] = max(revs[name], rev)
		}
	}
	m.forget(b, revs)
	b.revs, b.generation = revs, generation
	b.unsettled.Store(true) // until load has read what it names: another directory may fail before that
	return nil
}

// forget drops documents that are not in the index any more.
func (m *cache) forget(b *bucket, revs map[string]int64) {
	for name := range b.revs {
		if _, there := revs[name]; !there {
			m.put(name, "", nil, nil)
		}
	}
}

// load reads the documents that the index has at another revision than the cache. One that cannot be read, or that is
// at yet another revision, is looked at again the next time.
func (m *cache) load(ctx context.Context, look []*bucket) error {
	type one struct {
		b    *bucket
		name string
	}
	var missing []one
	m.mu.RLock()
	for _, b := range look {
		b.unsettled.Store(false)
		for name, rev := range b.revs {
			if d := m.docs[name]; d == nil || d.Rev != rev {
				missing = append(missing, one{b, name})
			}
		}
	}
	m.mu.RUnlock()
	errs := make([]error, len(missing))
	each(len(missing), func(i int) {
		b, name := missing[i].b, missing[i].name
		id, d, malformed, err := m.loadOne(ctx, name)
		if err != nil {
			b.unsettled.Store(true)
			errs[i] = err
			return
		}
		if d == nil || d.Rev != b.revs[name] {
			b.unsettled.Store(true)
		}
		m.put(name, id, d, malformed)
	})
	return firstOf(errs)
}

// loadOne reads one document by its znode's name, as look does.
func (m *cache) loadOne(ctx context.Context, name string) (id string, d *driver.Doc, malformed, err error) {
	id, ok := unescape(name)
	if !ok {
		return "", nil, nil, nil // a name that no document has
	}
	m.looked.Add(1)
	d, malformed, err = m.look(ctx, m.kind, id)
	return id, d, malformed, err
}

// put takes a document into the cache; nil: it is gone, or malformed.
func (m *cache) put(name, id string, d *driver.Doc, malformed error) {
	m.mu.Lock()
	delete(m.unreadable, name)
	if malformed != nil {
		m.unreadable[name] = driver.Unreadable{Kind: m.kind, ID: id, Err: malformed}
	}
	old := m.docs[name]
	if d == nil {
		delete(m.docs, name)
	} else {
		m.docs[name] = d
	}
	m.mu.Unlock()
	if old != nil || d != nil {
		m.changed(m.kind, old, d)
	}
}

// find answers a query from the cache.
func (m *cache) find(q driver.Query) dbstore.Page {
	m.mu.RLock()
	var matching []driver.Doc
	for _, d := range m.docs {
		if dbstore.Matches(d, q) {
			matching = append(matching, *d)
		}
	}
	unreadable := slices.Collect(maps.Values(m.unreadable))
	m.mu.RUnlock()
	found := dbstore.Select(matching, q)
	page := dbstore.Page{Docs: found.Docs, Total: found.Total}
	if !q.CountOnly {
		page.Unreadable = unreadable
	}
	for i := range page.Docs {
		page.Docs[i].Body = append([]byte(nil), page.Docs[i].Body...)
	}
	return page
}

// fired notes that a directory of the index has changed.
func (m *cache) fired(path string) {
	for i := range m.buckets {
		if m.buckets[i].path == path {
			m.buckets[i].stale.Store(true)
		}
	}
}
