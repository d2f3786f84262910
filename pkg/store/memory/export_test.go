package memory

import "github.com/shardctl/shardctl/pkg/store/driver"

// Examined is how many documents a List looks at.
func (s *Store) Examined(kind driver.Kind, q driver.Query) int64 {
	s.client.db.mu.Lock()
	defer s.client.db.mu.Unlock()
	t := s.client.db.tables[kind]
	if docs, ok := t.candidates(q); ok {
		return int64(len(docs))
	}
	docs, total := t.find(q)
	if q.Limit > 0 {
		return int64(total) // it ends with the page
	}
	return int64(max(len(t.docs), len(docs)))
}
