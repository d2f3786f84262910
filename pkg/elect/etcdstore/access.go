package etcdstore

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"

	"github.com/shardctl/shardctl/pkg/elect/internal/adapter"
	"github.com/shardctl/shardctl/pkg/elect/store"
)

// access is the way to etcd.
type access struct {
	keys       keys
	log        logr.Logger
	timeout    time.Duration
	user       string
	secrets    []string // of the URI, kept out of errors
	client     *clientv3.Client
	endpoints  *endpoints
	unreadable *adapter.Unreadable
	known      *known
	tidies     bool         // it takes away entries of indexes that edits by hand left
	base       atomic.Int64 // the largest base of the floor that was read
}

// commit sends one request. A member that does not answer is left.
func (a *access) commit(ctx context.Context, ops []clientv3.Op) (*clientv3.TxnResponse, error) {
	at, _ := a.endpoints.current()
	began := time.Now()
	resp, err := a.client.Txn(ctx).Then(ops...).Commit()
	if err != nil && silent(err, time.Since(began)) {
		a.endpoints.leave(at)
	}
	return resp, err
}

// silent says whether a call failed because its member does not answer, or cannot do without others that do not.
func silent(err error, after time.Duration) bool {
	if errors.Is(err, context.Canceled) {
		return false
	}
	switch codeOf(err) {
	case codes.Unavailable:
		return true
	case codes.DeadlineExceeded:
		return after >= suspicion
	default:
		return false
	}
}

// ask reads, and asks the next member while one after the other is not there.
func (a *access) ask(ctx context.Context, ops []clientv3.Op) (*clientv3.TxnResponse, error) {
	for tries := len(a.endpoints.all); ; tries-- {
		resp, err := a.commit(ctx, ops)
		if err == nil || tries <= 1 || ctx.Err() != nil || codeOf(err) != codes.Unavailable {
			return resp, err
		}
	}
}

// maintenance asks the member in use, over the connection there is. Status of the client would make another.
func (a *access) maintenance() etcdserverpb.MaintenanceClient {
	return etcdserverpb.NewMaintenanceClient(a.client.ActiveConnection())
}

// state is what a key holds, remembered from now on. doc is nil where there is none that can be read.
func (a *access) state(kind store.Kind, id string, found []*mvccpb.KeyValue) state {
	key := a.keys.doc(kind, id)
	if len(found) == 0 {
		a.known.forget(key)
		return state{}
	}
	s := state{mod: found[0].ModRevision}
	if d, ok := a.decode(kind, id, found[0].Value); ok {
		s.doc = &d
	}
	a.known.learn(key, s)
	return s
}

// decode reads a document, and logs one that cannot be read.
func (a *access) decode(kind store.Kind, id string, value []byte) (store.Doc, bool) {
	d, err := adapter.Decode(kind, id, value)
	if err != nil {
		a.unreadable.Report(kind, id, err)
	}
	return d, err == nil
}
