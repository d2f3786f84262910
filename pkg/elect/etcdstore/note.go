package etcdstore

import (
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/shardctl/shardctl/pkg/elect/internal/adapter"
	"github.com/shardctl/shardctl/pkg/elect/store"
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

// noted is a note as a notification, and what interests are matched with. ok is false for what is none.
func (a *access) noted(kv *mvccpb.KeyValue) (n store.Notification, about store.Doc, ok bool) {
	fields := strings.SplitN(string(kv.Value), separator, 4)
	if len(fields) != 4 || !store.Kind(fields[0]).Valid() || fields[1] == "" {
		return n, about, false
	}
	n.Kind, n.ID = store.Kind(fields[0]), fields[1]
	about = store.Doc{Kind: n.Kind, ID: n.ID, Group: fields[2]}
	if fields[3] == "" {
		return n, about, true
	}
	if d, readable := a.decode(n.Kind, n.ID, []byte(fields[3])); readable {
		a.known.learn(a.keys.doc(n.Kind, n.ID), state{mod: kv.ModRevision, doc: &d})
		n.Doc, about = &d, d
	}
	return n, about, true
}
