package etcd

import (
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/internal/adapter"
)

// documents reads what keys hold, and remembers it. Its methods may be called concurrently.
type documents struct {
	keys       keys
	known      *known
	unreadable *adapter.Unreadable
}

// state is what a key holds, remembered from now on. doc is nil where there is none that can be read.
func (d *documents) state(kind store.Kind, id string, found []*mvccpb.KeyValue) state {
	key := d.keys.doc(kind, id)
	if len(found) == 0 {
		d.known.forget(key)
		return state{}
	}
	s := state{mod: found[0].ModRevision}
	s.doc, s.unreadable = d.decode(kind, id, found[0].Value)
	d.known.learn(key, s)
	return s
}

// decode reads a document, and logs one that cannot be read.
func (d *documents) decode(kind store.Kind, id string, value []byte) (*store.Doc, *store.Unreadable) {
	doc, err := adapter.Decode(kind, id, value)
	if err != nil {
		unreadable := d.unreadable.Report(kind, id, err)
		return nil, &unreadable
	}
	return &doc, nil
}

// noted is a note as a notification, and what interests are matched with. ok is false for what is none.
func (d *documents) noted(kv *mvccpb.KeyValue) (n store.Notification, about store.Doc, ok bool) {
	fields := strings.SplitN(string(kv.Value), separator, 4)
	if len(fields) != 4 || !store.Kind(fields[0]).Valid() || fields[1] == "" {
		return n, about, false
	}
	n.Kind, n.ID = store.Kind(fields[0]), fields[1]
	about = store.Doc{Kind: n.Kind, ID: n.ID, Group: fields[2]}
	if fields[3] == "" {
		return n, about, true
	}
	if doc, _ := d.decode(n.Kind, n.ID, []byte(fields[3])); doc != nil {
		d.known.learn(d.keys.doc(n.Kind, n.ID), state{mod: kv.ModRevision, doc: doc})
		n.Doc, about = doc, *doc
	}
	return n, about, true
}
