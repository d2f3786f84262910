package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/internal/engine"
)

// schemaVersion is the version of the layout that this program writes.
const schemaVersion = 1

// ReasonStandalone is the problem of an ensemble of one server: there is one copy of the data.
const ReasonStandalone = "StoreStandalone"

// setup makes an ensemble ready, and finds out what it is.
type setup struct {
	*access
	dialer           dialer
	hosts            []string
	chroot, database string
	problems         []store.Problem
}

// open reaches the ensemble and makes what is missing, unless all of it is to exist.
func (s *setup) open(ctx context.Context, existing bool) error {
	if err := s.client.await(ctx); err != nil {
		return s.explain(ctx, err)
	}
	if !existing {
		if err := s.checkVersion(ctx); err != nil {
			return err
		}
	}
	known, err := s.readSchema(ctx)
	switch {
	case err != nil:
		return err
	case !known && existing:
		return fmt.Errorf("%w: no replica has set up %s yet", store.ErrInvalid, s.base)
	case !known:
		err = s.make(ctx)
	}
	if err != nil {
		return err
	}
	if existing {
		_, err = s.readBase(ctx)
		return err
	}
	s.inspectServers(ctx)
	return s.raiseFloor(ctx, func() int64 { return floorOf(s.clock.now(time.Now())) })
}

// leastVersion is the oldest version that will do. Before it servers have no TLS and do not say which they are. Those
// have had no releases for years.
const leastVersion = "3.5"

// checkVersion refuses a server that is too old. One that does not say its version is taken.
func (s *setup) checkVersion(ctx context.Context) error {
	answer, err := s.ask(ctx, s.client.conn().Server(), "srvr")
	if err != nil {
		return nil //nolint:nilerr // servers may be configured not to answer
	}
	return refuse(versionOf(answer))
}

// refuse is an error for a version that is too old.
func refuse(version string) error {
	if older, known := engine.Older(version, leastVersion); older && known {
		return fmt.Errorf("%w: ZooKeeper %s is too old, want %s or later", store.ErrInvalid, version, leastVersion)
	}
	return nil
}

// readSchema refuses another layout. False: there is none.
func (s *setup) readSchema(ctx context.Context) (known bool, err error) {
	f, err := s.get(ctx, s.schemaPath())
	if err != nil {
		return false, fmt.Errorf("read %s: %w", s.schemaPath(), err)
	}
	if f.stat == nil {
		return false, nil
	}
	version, err := strconv.Atoi(string(f.data))
	if err != nil {
		return false, fmt.Errorf("%w: the schema in %s has no number for its version", store.ErrSchema, s.schemaPath())
	}
	return true, store.CheckSchema("the schema in "+s.schemaPath(), version, schemaVersion)
}

// make makes all znodes; the schema comes last, and says that all are there.
func (s *setup) make(ctx context.Context) error {
	if err := s.makeDirectories(ctx); err != nil {
		return err
	}
	if err := s.create(ctx, s.floorPath(), strconv.AppendInt(nil, floorOf(time.Now().UnixMilli()), 10)); err != nil {
		return fmt.Errorf("make %s: %w", s.floorPath(), err)
	}
	if err := s.create(ctx, s.schemaPath(), strconv.AppendInt(nil, schemaVersion, 10)); err != nil {
		return fmt.Errorf("make %s: %w", s.schemaPath(), err)
	}
	_, err := s.readSchema(ctx) // somebody may have been faster
	return err
}

// makeDirectories makes what is missing of the directories, parents before children. ZooKeeper looks at rights before
// it looks whether a znode is there. So it is not asked to make the chroot, the database and the cluster where they
// are: an administrator may have made them, and their parents belong to others.
func (s *setup) makeDirectories(ctx context.Context) error {
	levels := map[int][]string{}
	deepest := 0
	all := s.directories()
	for _, path := range append(ancestors(s.chroot), s.database, s.base) {
		there, err := s.exists(ctx, path)
		if err != nil {
			return fmt.Errorf("look for %s: %w", path, err)
		}
		if !there {
			all = append(all, path)
		}
	}
	for _, path := range all {
		depth := strings.Count(path, "/")
		levels[depth] = append(levels[depth], path)
		deepest = max(deepest, depth)
	}
	for depth := range deepest + 1 {
		var parts [][]string
		for part := range slices.Chunk(levels[depth], inFlight) {
			parts = append(parts, part)
		}
		errs := make([]error, len(parts))
		each(len(parts), func(i int) { errs[i] = s.makeAll(ctx, parts[i]) })
		if err := firstOf(errs); err != nil {
			return err
		}
	}
	return nil
}

// ancestors are all znodes on the way to a path, and the path itself; none of the empty path.
func ancestors(path string) []string {
	var all []string
	for i, c := range path {
		if c == '/' && i > 0 {
			all = append(all, path[:i])
		}
	}
	if path != "" {
		all = append(all, path)
	}
	return all
}

// makeAll makes what is missing of some znodes: in one transaction, as on an ensemble that has none of them, or else
// one by one.
func (s *setup) makeAll(ctx context.Context, paths []string) error {
	ops := make([]any, len(paths))
	for i, path := range paths {
		ops[i] = &zk.CreateRequest{Path: path, Acl: s.acl}
	}
	if err := s.multi(ctx, ops); !errors.Is(err, zk.ErrNodeExists) {
		if err != nil {
			err = fmt.Errorf("make %s and %d more: %w", paths[0], len(paths)-1, err)
		}
		return err
	}
	errs := make([]error, len(paths))
	each(len(paths), func(i int) {
		if err := s.create(ctx, paths[i], nil); err != nil {
			errs[i] = fmt.Errorf("make %s: %w", paths[i], err)
		}
	})
	return firstOf(errs)
}
