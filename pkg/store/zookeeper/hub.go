package zookeeper

import (
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/shardctl/shardctl/pkg/store"
)

// hub hands events, and changes that refreshes of caches found, to those whom they concern. None of its methods blocks.
type hub struct {
	*access
	caches map[store.Kind]*cache // set before the first event

	mu       sync.Mutex
	watchers map[*watcher]struct{}
}

// event is an event of the library, in its order among the replies.
func (h *hub) event(e zk.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e.Type == zk.EventSession {
		if e.State == zk.StateHasSession {
			for w := range h.watchers {
				w.reconnected()
			}
		}
		return
	}
	if e.Path == h.floorPath() {
		h.floorBase.fired.Add(1)
	}
	for _, m := range h.caches {
		m.fired(e.Path)
	}
	for w := range h.watchers {
		w.fired(e.Path)
	}
}

// changed is a change that a refresh found; nil is absent.
func (h *hub) changed(kind store.Kind, old, d *store.Doc) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.watchers {
		w.changed(kind, old, d)
	}
}

func (h *hub) add(w *watcher) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.watchers[w] = struct{}{}
}

func (h *hub) remove(w *watcher) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.watchers, w)
}
