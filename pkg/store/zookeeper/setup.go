package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/dbstore"
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
	problems         dbstore.Problems
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
		return fmt.Errorf("%w: no replica has set up %s yet", driver.ErrInvalid, s.base)
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
	s.look(ctx)
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
	if older, known := dbstore.Older(version, leastVersion); older && known {
		return fmt.Errorf("%w: ZooKeeper %s is too old, want %s or later", driver.ErrInvalid, version, leastVersion)
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
		return false, fmt.Errorf("%w: the schema in %s has no number for its version", driver.ErrSchema, s.schemaPath())
	}
	return true, driver.CheckSchema("the schema in "+s.schemaPath(), version, schemaVersion)
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
		ops[i] = &zk.CreateRequest{Path: path, Acl: s.acl()}
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

// askTimeout bounds a question of four letters. They are for people: no call of a replica waits for one.
const askTimeout = time.Second

// ask sends a server one of ZooKeeper's questions of four letters, on a connection of its own. A server answers those
// that its 4lw.commands.whitelist names; srvr alone is in it by default.
func (s *setup) ask(ctx context.Context, host, question string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	conn, err := s.dialer.dial(ctx, host)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	if end, has := ctx.Deadline(); has {
		if err := conn.SetDeadline(end); err != nil {
			return "", err
		}
	}
	if _, err := io.WriteString(conn, question); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(io.LimitReader(conn, 1<<16))
	if len(answer) > 0 {
		return string(answer), nil // some end without a word of TLS
	}
	return "", err
}

var (
	versionLine = regexp.MustCompile(`(?m)^Zookeeper version: (\d+)\.(\d+)(\.\d+)?`)
	modeLine    = regexp.MustCompile(`(?m)^Mode: (\S+)`)
)

// versionOf is the version in an answer to srvr; empty: it does not say.
func versionOf(answer string) string {
	found := versionLine.FindString(answer)
	_, version, _ := strings.Cut(found, ": ")
	return version
}

// askAll asks each host which server it is, all at once. Who does not answer has said nothing.
func (s *setup) askAll(ctx context.Context) []string {
	answers := make([]string, len(s.hosts))
	each(len(answers), func(i int) { answers[i], _ = s.ask(ctx, s.hosts[i], "srvr") })
	return answers
}

// explain asks servers why they give no session, for the error of a first connection.
func (s *setup) explain(ctx context.Context, err error) error {
	answers := s.askAll(context.WithoutCancel(ctx))
	for i, host := range s.hosts {
		switch mode := modeLine.FindStringSubmatch(answers[i]); {
		case strings.Contains(answers[i], "not currently serving requests"):
			return fmt.Errorf("%s says that it serves no one: the ensemble has no majority: %w", host, err)
		case mode != nil && mode[1] == "read-only":
			return fmt.Errorf("%s is in read-only mode: the ensemble has no majority: %w", host, err)
		}
	}
	return err
}

// members are the servers that vote, by the ensemble's own configuration; ok is false where no one says.
func (s *setup) members(ctx context.Context) (voters int, ok bool) {
	f, err := s.get(ctx, "/zookeeper/config")
	if err != nil || f.stat == nil {
		return 0, false
	}
	for line := range strings.Lines(string(f.data)) {
		if strings.HasPrefix(line, "server.") && !strings.Contains(line, ":observer") {
			voters++
		}
	}
	return max(voters, 1), true
}

// look finds problems. What cannot be seen is none.
func (s *setup) look(ctx context.Context) {
	var found []driver.Problem
	if voters, ok := s.members(ctx); ok && voters == 1 {
		found = append(found, driver.Problem{
			Reason:  ReasonStandalone,
			Message: "ZooKeeper is one server: there is one copy of the data, and no fail-over. Use three or five.",
		})
	}
	s.problems.Looked(found)
}

// Inspect says which ZooKeeper this is and how it is set up, as far as its servers say. See [store.Inspect].
func (b *backend) Inspect(ctx context.Context) (driver.Inspection, error) {
	if _, err := b.barrier.pass(ctx); err != nil {
		return driver.Inspection{}, err
	}
	found := driver.Inspection{Server: "ZooKeeper"}
	answers := b.setup.askAll(ctx)
	for i, host := range b.setup.hosts {
		value := "does not answer srvr (down, or 4lw.commands.whitelist leaves it out)"
		if version := versionOf(answers[i]); version != "" {
			value = version
			if mode := modeLine.FindStringSubmatch(answers[i]); mode != nil {
				value += ", " + mode[1]
			}
			found.Server = "ZooKeeper " + version
		}
		found.Settings = append(found.Settings, driver.Setting{Name: "server " + host, Value: value, Holds: true})
	}
	found.Settings = append(found.Settings, b.setup.voters(ctx), b.setup.silence(ctx), driver.Setting{
		Name: "forceSync", Value: "not shown by servers (a property of their JVM, zookeeper.forceSync)",
		Want: "yes, the default", Holds: true,
	})
	return found, nil
}

// voters is how many servers vote.
func (s *setup) voters(ctx context.Context) driver.Setting {
	set := driver.Setting{Name: "servers that vote", Value: "not to be seen (/zookeeper/config)", Holds: true}
	if n, ok := s.members(ctx); ok {
		set.Value, set.Want, set.Holds = strconv.Itoa(n), "3 or more", n >= 3
	}
	return set
}

var confLine = regexp.MustCompile(`(?m)^(tickTime|syncLimit)=(\d+)`)

// silence is for how long a leader may be silent before its followers elect another one.
func (s *setup) silence(ctx context.Context) driver.Setting {
	set := driver.Setting{
		Name: "tickTime × syncLimit", Value: "not shown (4lw.commands.whitelist leaves conf out)", Holds: true,
	}
	answer, err := s.ask(ctx, s.client.conn().Server(), "conf")
	if err != nil {
		return set
	}
	product, found := 1, 0
	for _, match := range confLine.FindAllStringSubmatch(answer, -1) {
		n, err := strconv.Atoi(match[2])
		if err != nil {
			return set
		}
		product, found = product*n, found+1
	}
	if found == 2 {
		set.Value = fmt.Sprintf("%v until a silent leader is replaced", time.Duration(product)*time.Millisecond)
	}
	return set
}
