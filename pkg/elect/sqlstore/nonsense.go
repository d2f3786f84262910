package sqlstore

import (
	"github.com/shardctl/shardctl/pkg/elect/store"
)

// maxTold bounds the memory of what was logged.
const maxTold = 1000

// usable says whether a row is a document, and logs, once each, those that somebody has edited into none.
func (s *Store) usable(d store.Doc) bool {
	err := store.CheckFound(d)
	if err == nil {
		return true
	}
	id := string(d.Kind) + " " + d.ID
	s.mu.Lock()
	_, told := s.told[id]
	if !told && len(s.told) < maxTold {
		s.told[id] = struct{}{}
	}
	s.mu.Unlock()
	if !told {
		s.log.Error(err, "unreadable document in the store", "key", id)
	}
	return false
}
