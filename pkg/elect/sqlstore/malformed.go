package sqlstore

import (
	"sync"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/pkg/elect/store"
)

// maxLogged bounds the memory of what was logged.
const maxLogged = 1000

// found looks at rows as they come out of the database, where anybody may have edited them.
type found struct {
	log    logr.Logger
	mu     sync.Mutex
	logged map[string]struct{}
}

// usable says whether a row is a document, and logs, once each, those that are none.
func (f *found) usable(d store.Doc) bool {
	err := store.CheckFound(d)
	if err == nil {
		return true
	}
	id := string(d.Kind) + " " + d.ID
	f.mu.Lock()
	_, before := f.logged[id]
	if !before && len(f.logged) < maxLogged {
		if f.logged == nil {
			f.logged = map[string]struct{}{}
		}
		f.logged[id] = struct{}{}
	}
	f.mu.Unlock()
	if !before {
		f.log.Error(err, "A document in the store is unreadable", "document", id)
	}
	return false
}
