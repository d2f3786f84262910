package zookeeper

import (
	"reflect"

	"github.com/shardctl/shardctl/pkg/store"
)

// Looked is how many names of the index and documents the client's lists have read.
func (s *Store) Looked() (all int64) {
	for _, c := range s.caches {
		all += c.looked.Load()
	}
	return all
}

// Document is the path of a document's data.
func (s *Store) Document(kind store.Kind, id string) string { return s.place(kind, id).document }

// Entry is the path of a document's line in the index.
func (s *Store) Entry(kind store.Kind, id string, rev int64) string {
	return s.place(kind, id).entry(rev)
}

// Schema is the path of the layout's version.
func (s *Store) Schema() string { return s.schemaPath() }

// Channels is how many channels the library keeps for watches that have not fired. No connection may be coming or
// going.
func (s *Store) Channels() (all int) {
	watchers := reflect.ValueOf(s.client.conn()).Elem().FieldByName("watchers")
	for each := watchers.MapRange(); each.Next(); {
		all += each.Value().Len()
	}
	return all
}
