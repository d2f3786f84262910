package etcd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/shardctl/shardctl/internal/clock"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// floor is what is kept under the key .floor. The floor is Base and etcd's revision together. Each write of a lock
// raises its revision by one above the floor at most, and that of etcd by one, so that no token passes the floor.
// (Sessions skip numbers, and overrides follow a clock: theirs may.) The base is raised to the wall clock when a store
// is opened. So revisions go on to rise where etcd's own was set back by a backup, unless etcd has had more than a
// thousand revisions a second since then.
type floor struct {
	Base int64 `json:"base"`
	Time int64 `json:"time"` // when the first of an hour was written, Unix ms; see keptSince
	// Etcd's revisions of that first one, if it is another one, and of the first one of the hour before that.
	First int64 `json:"first,omitempty"`
	Prev  int64 `json:"prev,omitempty"`
}

// floorEvery is how old a floor is when Open writes it again, and for how long those that are written meanwhile keep
// its time: nearly each Open raises the base, and keptSince must not look at all of them.
const floorEvery = time.Hour

// decodeFloor is the zero floor where there is none, or one that was edited so that it is none.
func decodeFloor(found []*mvccpb.KeyValue) (f floor) {
	if len(found) == 0 || json.Unmarshal(found[0].Value, &f) != nil || f.Base < 0 || f.Base > driver.MaxMark {
		return floor{}
	}
	return f
}

func (f floor) encode() string {
	text, err := json.Marshal(f)
	if err != nil {
		panic(err) // numbers
	}
	return string(text)
}

// next is a floor that takes the place of f, which is at revision mod of etcd's. Its base is left to the caller.
func (f floor) next(mod, now int64) floor {
	first := cmp.Or(f.First, mod)
	if now-f.Time < floorEvery.Milliseconds() {
		return floor{Time: f.Time, First: first, Prev: f.Prev}
	}
	return floor{Time: now, Prev: first}
}

// floors is the way to the floor. Its methods may be called concurrently.
type floors struct {
	link *link
	key  string
	base atomic.Int64 // the largest base that was read
}

// at is the floor at a revision of etcd's. Where the base was deleted manually, the largest that was seen counts.
func (f *floors) at(found []*mvccpb.KeyValue, rev int64) int64 {
	return f.learn(decodeFloor(found).Base) + rev
}

// learn takes a base, unless a larger one is known, and returns the larger one.
func (f *floors) learn(base int64) int64 {
	for {
		largest := f.base.Load()
		if base <= largest {
			return largest
		}
		if f.base.CompareAndSwap(largest, base) {
			return base
		}
	}
}

// raise makes the floor at least this, by compare-and-set. renew writes it also when it is only old. Where etcd is
// full, the replies of this process are raised all the same: it may go on once there is space.
func (f *floors) raise(ctx context.Context, least int64, renew bool) error {
	for {
		resp, err := f.link.ask(ctx, clientv3.OpGet(f.key))
		if err != nil {
			return err
		}
		found := resp.Responses[0].GetResponseRange().Kvs
		kept := decodeFloor(found)
		now := clock.Wall().UnixMilli()
		is := f.at(found, resp.Header.Revision)
		old := renew && now-kept.Time >= floorEvery.Milliseconds()
		if is >= least && !old {
			return nil
		}
		mod := int64(0)
		if len(found) > 0 {
			mod = found[0].ModRevision
		}
		next := kept.next(mod, now)
		next.Base = max(kept.Base, f.base.Load(), least-resp.Header.Revision)
		written, err := f.link.client.Txn(ctx).
			If(clientv3.Compare(clientv3.ModRevision(f.key), "=", mod)).
			Then(clientv3.OpPut(f.key, next.encode())).Commit()
		if errors.Is(err, rpctypes.ErrNoSpace) {
			f.learn(next.Base)
		}
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

// keptSince is a time, Unix ms, from which on etcd still keeps every revision; 0: not known. It follows the floors of
// hour after hour, no further back than keptLong.
func (f *floors) keptSince(ctx context.Context) (since int64, err error) {
	resp, err := f.link.client.Get(ctx, f.key)
	if err != nil || len(resp.Kvs) == 0 {
		return 0, err
	}
	kept := decodeFloor(resp.Kvs)
	now := clock.Wall().UnixMilli()
	for rev := cmp.Or(kept.First, resp.Kvs[0].ModRevision); rev > 0; rev = kept.Prev {
		// Of what was compacted the newest value is there, but not at its own revision.
		resp, err = f.link.client.Get(ctx, f.key, clientv3.WithRev(rev))
		if errors.Is(err, rpctypes.ErrCompacted) || errors.Is(err, rpctypes.ErrFutureRev) {
			return since, nil
		}
		if err != nil || len(resp.Kvs) == 0 {
			return since, err
		}
		if kept = decodeFloor(resp.Kvs); kept.Time == 0 || kept.Prev >= rev {
			return since, nil // edited
		}
		if since = kept.Time; now-since > keptLong.Milliseconds() {
			return since, nil
		}
	}
	return since, nil
}

// schemaVersion is what this program sets up and understands. It rises with every change of the layout.
const schemaVersion = 1

// setUp writes the version of the layout unless it is there, and refuses another one. Of several that do so at once
// one writes it.
func (p parts) setUp(ctx context.Context, existing bool) error {
	key := p.keys.schema()
	resp, err := p.link.ask(ctx, clientv3.OpGet(key))
	if err != nil {
		return err
	}
	found := resp.Responses[0].GetResponseRange().Kvs
	if len(found) == 0 && existing {
		return fmt.Errorf("%w: no replica has set up this cluster here yet", driver.ErrInvalid)
	}
	if len(found) == 0 {
		written, err := p.link.client.Txn(ctx).
			If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).
			Then(clientv3.OpPut(key, strconv.Itoa(schemaVersion))).
			Else(clientv3.OpGet(key)).Commit()
		if err != nil {
			return err
		}
		if !written.Succeeded {
			found = written.Responses[0].GetResponseRange().Kvs
		}
	}
	if len(found) > 0 {
		version, err := strconv.Atoi(string(found[0].Value))
		if err != nil {
			return fmt.Errorf("%w: the key %s says version %.40q: was it edited?", driver.ErrSchema, key, found[0].Value)
		}
		if err := driver.CheckSchema("the key "+key, version, schemaVersion); err != nil {
			return err
		}
	}
	if existing {
		return nil
	}
	err = p.floors.raise(ctx, clock.Wall().UnixMilli(), true)
	if errors.Is(err, rpctypes.ErrNoSpace) { // nothing can be written: it is shown as a problem, and reads are served
		return nil
	}
	return err
}
