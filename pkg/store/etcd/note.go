package etcd

import (
	"strings"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/internal/adapter"
)

// note is the value that notifies watchers of a change: kind, ID, group, and the document as the change left it, empty
// when deleted. Whether anybody may be notified at all the writer knows, who knows the document before. So heartbeats
// and claims never reach a watcher, and no watch has to ask for previous values.
func note(named store.Doc, old, d *store.Doc) string {
	group, value := named.Group, ""
	switch {
	case d != nil:
		group, value = d.Group, string(adapter.Encode(*d))
	case old != nil:
		group = old.Group
	}
	return strings.Join([]string{string(named.Kind), named.ID, group, value}, separator)
}
