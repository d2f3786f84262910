package etcd

import (
	"testing"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/dbstore"
)

// A watch that catches up goes on after the last event that came, though the header of the response is ahead of it.
func TestWatchGoesOnAfterTheLastEvent(t *testing.T) {
	k := newKeys("p", "c")
	docs := &documents{keys: k, known: newKnown()}
	s := &stream{backend: &backend{parts: parts{keys: k, docs: docs}}, emit: func(dbstore.Event) {}, next: 100}
	group := driver.Doc{Kind: driver.KindGroup, ID: "g", Rev: 7}
	noted := &clientv3.Event{Type: clientv3.EventTypePut, Kv: &mvccpb.KeyValue{
		Key: []byte(k.note(0)), Value: []byte(note(group, nil, &group)), ModRevision: 1100,
	}}
	for _, tt := range []struct {
		events []*clientv3.Event
		want   int64
	}{
		{[]*clientv3.Event{noted}, 1101},
		{nil, 5001}, // progress
		{[]*clientv3.Event{noted}, 5001},
	} {
		s.deliver(clientv3.WatchResponse{Header: &etcdserverpb.ResponseHeader{Revision: 5000}, Events: tt.events})
		if s.next != tt.want {
			t.Errorf("after %d events it goes on at %d, want %d", len(tt.events), s.next, tt.want)
		}
	}
}
