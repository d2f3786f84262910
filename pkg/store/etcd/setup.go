package etcd

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/shardctl/shardctl/pkg/internal/wallclock"
	"github.com/shardctl/shardctl/pkg/store"
)

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
		return fmt.Errorf("%w: no replica has set up this cluster here yet", store.ErrInvalid)
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
			return fmt.Errorf("%w: the key %s says version %.40q: was it edited?", store.ErrSchema, key, found[0].Value)
		}
		if err := store.CheckSchema("the key "+key, version, schemaVersion); err != nil {
			return err
		}
	}
	if existing {
		return nil
	}
	err = p.floors.raise(ctx, wallclock.Now().UnixMilli(), true)
	if errors.Is(err, rpctypes.ErrNoSpace) { // nothing can be written: it is shown as a problem, and reads are served
		return nil
	}
	return err
}
