package etcd

import (
	"context"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/shardctl/shardctl/pkg/store"
)

// strays are the entries of indexes that one List meets and whose documents do not have them: another tool deleted or
// edited the document. No write takes such an entry away, and each list that meets it would read its document for
// nothing. Nil strays collect nothing.
type strays struct {
	keys keys
	read map[string]state // by ID
	all  []stray
}

type stray struct {
	entry, doc string
	mod        int64 // of the document; 0: there is none
}

func newStrays(k keys) *strays { return &strays{keys: k, read: map[string]state{}} }

// saw takes what was read of a document.
func (s *strays) saw(id string, is state) {
	if s != nil {
		s.read[id] = is
	}
}

// note compares entries with the documents that were read for them. What cannot be read is left alone: it may be
// repaired.
func (s *strays) note(kind store.Kind, index string, entries []*mvccpb.KeyValue) {
	if s == nil {
		return
	}
	cut := len(s.keys.index(kind, index))
	for _, kv := range entries {
		key := string(kv.Key)
		id := entryID(index, key[cut:])
		is, read := s.read[id]
		if !read || is.mod != 0 && is.doc == nil {
			continue
		}
		if is.doc != nil {
			if entry, ok := s.keys.entry(is.doc, index); ok && entry == key {
				continue
			}
		}
		s.all = append(s.all, stray{entry: key, doc: s.keys.doc(kind, id), mod: is.mod})
	}
}

// remove takes those away whose documents are as they were read, as many as one request may. After an error the next
// list meets them again.
func (s *strays) remove(ctx context.Context, l *link) error {
	if s == nil || len(s.all) == 0 {
		return nil
	}
	s.all = s.all[:min(len(s.all), keysPerRequest)]
	ops := make([]clientv3.Op, len(s.all))
	for i, is := range s.all {
		as := clientv3.Compare(clientv3.ModRevision(is.doc), "=", is.mod)
		ops[i] = clientv3.OpTxn([]clientv3.Cmp{as}, []clientv3.Op{clientv3.OpDelete(is.entry)}, nil)
	}
	_, err := l.commit(ctx, ops)
	return err
}
