package etcd

import (
	"context"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/dbstore"
)

// Entries are the keys of the indexes that a document is in.
func Entries(s driver.Store, d driver.Doc) []string { return of(s).keys.entries(&d) }

// Index begins the keys of all indexes.
func Index(s driver.Store) string { return of(s).keys.root + ".index/" }

func of(s driver.Store) *backend { return s.(*dbstore.Store).Backend().(*backend) }

// OpenCounting opens a store that says how many keys each reply of etcd's to a read holds: documents and entries of
// indexes. Keys that are only counted are not read.
func OpenCounting(ctx context.Context, o Options, note func(keys int)) (driver.Store, error) {
	return openBy(ctx, o, grpc.WithChainUnaryInterceptor(func(
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
}
