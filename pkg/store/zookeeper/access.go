package zookeeper

import (
	"context"
	"errors"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-zookeeper/zk"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/internal/engine"
)

// access is what all parts of a store need to reach its znodes.
type access struct {
	layout
	client    *client
	acl       []zk.ACL
	clock     clock
	floorBase base
	timeout   time.Duration // of requests
	log       logr.Logger
}

// found is a znode's data.
type found struct {
	data []byte
	stat *zk.Stat
}

// get reads a znode from the server at hand, which may be behind the others. Absent: stat is nil.
func (a *access) get(ctx context.Context, path string) (found, error) {
	f, err := do(ctx, a.client, func(conn *zk.Conn) (found, error) {
		data, stat, err := conn.Get(path)
		return found{data, stat}, err
	})
	if errors.Is(err, zk.ErrNoNode) {
		return found{}, nil
	}
	if err != nil {
		return found{}, err
	}
	a.clock.read(f.stat)
	return f, nil
}

// children lists a znode's children, from the server at hand. With watch the next change of them is an event.
func (a *access) children(ctx context.Context, path string, watch bool) ([]string, error) {
	return do(ctx, a.client, func(conn *zk.Conn) ([]string, error) {
		if !watch {
			names, _, err := conn.Children(path)
			return names, err
		}
		names, _, _, err := conn.ChildrenW(path)
		return names, err
	})
}

// set writes a znode's data, whatever they were.
func (a *access) set(ctx context.Context, path string, data []byte) error {
	stat, err := do(ctx, a.client, func(conn *zk.Conn) (*zk.Stat, error) { return conn.Set(path, data, -1) })
	if err == nil {
		a.clock.write(stat, time.Now())
	}
	return err
}

// exists says whether a znode is there. It needs no rights.
func (a *access) exists(ctx context.Context, path string) (bool, error) {
	return do(ctx, a.client, func(conn *zk.Conn) (bool, error) {
		there, _, err := conn.Exists(path)
		return there, err
	})
}

// create makes a znode unless it is there.
func (a *access) create(ctx context.Context, path string, data []byte) error {
	_, err := do(ctx, a.client, func(conn *zk.Conn) (string, error) { return conn.Create(path, data, 0, a.acl) })
	if errors.Is(err, zk.ErrNodeExists) {
		return nil
	}
	return err
}

// decode is what a znode's data say; nil: there is none, or what is there cannot be read, for the reason that malformed
// is.
func decode(kind store.Kind, id string, f found) (d *store.Doc, malformed error) {
	if f.stat == nil {
		return nil, nil
	}
	doc, err := engine.Decode(kind, id, f.data)
	if err != nil {
		return nil, err
	}
	return &doc, nil
}

// multi sends operations that happen together or not at all. The error is that of the first one that cannot.
func (a *access) multi(ctx context.Context, ops []any) error {
	answers, err := do(ctx, a.client, func(conn *zk.Conn) ([]zk.MultiResponse, error) { return conn.Multi(ops...) })
	at := time.Now()
	if err != nil {
		return err
	}
	for _, one := range answers {
		if one.Stat != nil {
			a.clock.write(one.Stat, at)
		}
	}
	return nil
}
