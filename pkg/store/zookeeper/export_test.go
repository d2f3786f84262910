package zookeeper

import (
	"reflect"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/dbstore"
)

// Looked is how many names of the index and documents the client's lists have read.
func Looked(s driver.Store) (all int64) {
	for _, c := range of(s).hub.caches {
		all += c.looked.Load()
	}
	return all
}

// Document is the path of a document's data.
func Document(s driver.Store, kind driver.Kind, id string) string {
	return of(s).place(kind, id).document
}

// Entry is the path of a document's line in the index.
func Entry(s driver.Store, kind driver.Kind, id string, rev int64) string {
	return of(s).place(kind, id).entry(rev)
}

// Schema is the path of the layout's version.
func Schema(s driver.Store) string { return of(s).schemaPath() }

// Channels is how many channels the library keeps for watches that have not fired. No connection may be coming or
// going.
func Channels(s driver.Store) (all int) {
	watchers := reflect.ValueOf(of(s).client.conn()).Elem().FieldByName("watchers")
	for each := watchers.MapRange(); each.Next(); {
		all += each.Value().Len()
	}
	return all
}

func of(s driver.Store) *backend { return s.(*dbstore.Store).Backend().(*backend) }
