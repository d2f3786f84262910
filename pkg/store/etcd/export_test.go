package etcd

import (
	"context"
	"sync/atomic"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/internal/engine"
)

// Entries are the keys of the indexes that a document is in.
func Entries(s store.Store, d store.Doc) []string { return of(s).keys.entries(&d) }

// Index begins the keys of all indexes.
func Index(s store.Store) string { return of(s).keys.root + ".index/" }

func of(s store.Store) *backend { return s.(*engine.Store).Backend().(*backend) }

// Counting has a store of these options count the keys that etcd reads for it: documents and entries of indexes. Keys
// that are only counted are not read.
func Counting(o Options, keys *atomic.Int64) Options {
	return Replies(o, func(n int) { keys.Add(int64(n)) })
}

// Replies has a store of these options say how many keys each reply of etcd's to a read holds.
func Replies(o Options, note func(keys int)) Options {
	o.dial = append(o.dial, grpc.WithChainUnaryInterceptor(func(
		ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker,
		opts ...grpc.CallOption,
	) error {
		err := invoker(ctx, method, req, reply, cc, opts...)
		if txn, ok := reply.(*etcdserverpb.TxnResponse); ok && err == nil {
			keys := 0
			for _, r := range txn.Responses[1:] { // the first is the base of the floor
				keys += len(r.GetResponseRange().GetKvs())
			}
			note(keys)
		}
		return err
	}))
	return o
}
