package etcdstore

import (
	"context"
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/shardctl/shardctl/pkg/elect/store"
)

// stray is an entry of an index that its document does not have: somebody deleted or edited that with a tool. No write
// takes such an entry away, and each list that meets it would read its document for nothing.
type stray struct {
	entry, doc string
	mod        int64 // of the document; 0: there is none
}

// noteStrays compares entries with the documents that were read for them. What cannot be read is left alone: it may be
// mended.
func (v *view) noteStrays(kind store.Kind, index string, entries []*mvccpb.KeyValue) {
	if !v.tidies {
		return
	}
	cut := len(v.keys.index(kind, index))
	for _, kv := range entries {
		key := string(kv.Key)
		id := entryID(index, key[cut:])
		is, read := v.read[id]
		switch {
		case !read, is.mod != 0 && is.doc == nil, is.doc != nil && slices.Contains(v.keys.entries(is.doc), key):
		default:
			v.strays = append(v.strays, stray{entry: key, doc: v.keys.doc(kind, id), mod: is.mod})
		}
	}
}

// tidy takes strays away whose documents are as they were read, as many as one request may. That it may fail is no
// matter: the next list meets them again.
func (v *view) tidy(ctx context.Context) {
	v.strays = v.strays[:min(len(v.strays), keysPerRequest)]
	ops := make([]clientv3.Op, len(v.strays))
	for i, s := range v.strays {
		as := clientv3.Compare(clientv3.ModRevision(s.doc), "=", s.mod)
		ops[i] = clientv3.OpTxn([]clientv3.Cmp{as}, []clientv3.Op{clientv3.OpDelete(s.entry)}, nil)
	}
	if len(ops) == 0 {
		return
	}
	if _, err := v.commit(ctx, ops); err != nil {
		v.log.V(1).Info("Entries of indexes without documents stay", "reason", v.translate("tidy", err).Error())
	}
}
