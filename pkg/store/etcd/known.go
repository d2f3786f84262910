package etcd

import (
	"slices"
	"sync"

	"github.com/shardctl/shardctl/pkg/store"
)

// maxKnown bounds how many documents are remembered. Those of a replica with 10,000 keys fit.
const maxKnown = 20_000

// state is a document as it was at a modification revision of its key.
type state struct {
	mod int64      // 0: there is no key
	doc *store.Doc // nil: absent, or unreadable

	unreadable *store.Unreadable // what is there in the place of a document
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
		if own.Kind == store.KindGroup { // a counter that is raised keeps its body
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
