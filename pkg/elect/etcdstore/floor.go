package etcdstore

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/shardctl/shardctl/pkg/elect/store"
	"github.com/shardctl/shardctl/pkg/internal/wallclock"
)

// floor is what is kept under the key .floor. The floor is Base and etcd's revision together. Each write raises a
// revision of ours and that of etcd, so that no revision of ours passes the floor. The base is raised to the wall clock
// when a store is opened: then revisions go on to rise where etcd's own was set back by a backup.
type floor struct {
	Base int64 `json:"base"`
	Time int64 `json:"time"` // when it was written, Unix ms; see keptSince
}

// floorEvery is how old a floor is when Open writes it anew.
const floorEvery = time.Hour

func decodeFloor(found []*mvccpb.KeyValue) (f floor, ok bool) {
	if len(found) == 0 {
		return f, false
	}
	err := json.Unmarshal(found[0].Value, &f)
	return f, err == nil && f.Base >= 0 && f.Base <= store.MaxMark
}

func (f floor) encode() string {
	text, err := json.Marshal(f)
	if err != nil {
		panic(err) // two numbers
	}
	return string(text)
}

// floorAt is the floor at a revision of etcd's. Where the base was deleted by hand, the largest that was seen counts.
func (a *access) floorAt(found []*mvccpb.KeyValue, rev int64) int64 {
	f, _ := decodeFloor(found)
	for {
		largest := a.base.Load()
		if f.Base <= largest {
			return largest + rev
		}
		if a.base.CompareAndSwap(largest, f.Base) {
			return f.Base + rev
		}
	}
}

// RaiseFloor implements what [store.RaiseFloor] asks for.
func (s *Store) RaiseFloor(ctx context.Context, least int64) error {
	ctx, release := s.life.Bound(ctx)
	defer release()
	return s.translate("raise the floor", s.raiseFloor(ctx, least, false))
}

// raiseFloor makes the floor at least this, by compare-and-set. renew writes it also when it is only old.
func (a *access) raiseFloor(ctx context.Context, least int64, renew bool) error {
	for {
		resp, err := a.ask(ctx, []clientv3.Op{clientv3.OpGet(a.keys.floor())})
		if err != nil {
			return err
		}
		found := resp.Responses[0].GetResponseRange().Kvs
		f, _ := decodeFloor(found)
		now := wallclock.Now().UnixMilli()
		is := a.floorAt(found, resp.Header.Revision)
		old := renew && now-f.Time >= floorEvery.Milliseconds()
		if is >= least && !old {
			return nil
		}
		next := floor{Base: max(f.Base, a.base.Load(), least-resp.Header.Revision), Time: now}
		mod := int64(0)
		if len(found) > 0 {
			mod = found[0].ModRevision
		}
		written, err := a.client.Txn(ctx).
			If(clientv3.Compare(clientv3.ModRevision(a.keys.floor()), "=", mod)).
			Then(clientv3.OpPut(a.keys.floor(), next.encode())).Commit()
		if err != nil {
			return err
		}
		if written.Succeeded {
			return nil
		}
	}
}

// keptLong is how far back etcd should remember at most. Hourly compaction keeps one or two hours.
const keptLong = 25 * time.Hour

// keptSince is a time, Unix ms, from which on etcd still keeps every revision; 0: not known. It follows the times in
// old values of the floor, no further back than keptLong.
func (a *access) keptSince(ctx context.Context) (since int64, err error) {
	resp, err := a.client.Get(ctx, a.keys.floor())
	for err == nil && len(resp.Kvs) > 0 {
		mod := resp.Kvs[0].ModRevision
		// Of what was compacted the newest value is there, but not at its own revision.
		if resp, err = a.client.Get(ctx, a.keys.floor(), clientv3.WithRev(mod)); err != nil || len(resp.Kvs) == 0 {
			break
		}
		if f, ok := decodeFloor(resp.Kvs); ok {
			since = f.Time
		}
		if resp.Kvs[0].Version == 1 || wallclock.Now().UnixMilli()-since > keptLong.Milliseconds() {
			break
		}
		resp, err = a.client.Get(ctx, a.keys.floor(), clientv3.WithRev(mod-1))
	}
	if errors.Is(err, rpctypes.ErrCompacted) {
		err = nil
	}
	return since, err
}
