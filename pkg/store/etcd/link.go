package etcd

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
)

// link is the way to etcd: one client, which uses one member at a time.
type link struct {
	client    *clientv3.Client
	endpoints *endpoints
	suspicion time.Duration
}

// commit sends one request. A member that does not answer is left.
func (l *link) commit(ctx context.Context, ops []clientv3.Op) (*clientv3.TxnResponse, error) {
	at, _ := l.endpoints.current()
	began := time.Now()
	resp, err := l.client.Txn(ctx).Then(ops...).Commit()
	if err != nil && l.silent(err, time.Since(began)) {
		l.endpoints.leave(at)
	}
	return resp, err
}

// silent says whether a call failed because its member does not answer, or cannot do without others that do not.
func (l *link) silent(err error, after time.Duration) bool {
	if errors.Is(err, context.Canceled) {
		return false
	}
	switch codeOf(err) {
	case codes.Unavailable:
		return true
	case codes.DeadlineExceeded:
		return after >= l.suspicion
	default:
		return false
	}
}

// ask reads, and asks the next member while one after the other is not there.
func (l *link) ask(ctx context.Context, ops ...clientv3.Op) (*clientv3.TxnResponse, error) {
	for tries := len(l.endpoints.all); ; tries-- {
		resp, err := l.commit(ctx, ops)
		if err == nil || tries <= 1 || ctx.Err() != nil || codeOf(err) != codes.Unavailable {
			return resp, err
		}
	}
}

// maintenance asks the member in use, over the connection there is. Status of the client would make another.
func (l *link) maintenance() etcdserverpb.MaintenanceClient {
	return etcdserverpb.NewMaintenanceClient(l.client.ActiveConnection())
}
