package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/dbstore"
)

// schemaVersion is that of the layout of keys and documents.
const schemaVersion = 1

// Reasons of problems.
const (
	ReasonNotDurable = "StoreNotDurable" // a crash loses acknowledged writes, and keys pause for a lease
	ReasonUnknown    = "StoreUnchecked"  // a setting could not be looked at
	ReasonEviction   = "StoreEviction"   // documents would be dropped where a limit of memory is set
	ReasonPolled     = "StorePolled"     // the user may not use the channel: polling
	ReasonClosed     = "StoreClosed"     // no key can be claimed before the gate's key is deleted
)

// setup is the way to a store that is ready, and what was found on it.
type setup struct {
	*access
	problems *dbstore.Problems
	silent   bool // the user may not use the channel
}

// run makes sure that the server will do, and that its database is of this layout.
func (s *setup) run(ctx context.Context, existing bool) error {
	d, err := s.describe(ctx)
	if err != nil {
		return err
	}
	if err := d.refuse(s.finder.target.cluster); err != nil {
		return err
	}
	if existing {
		return s.checkExisting(ctx)
	}
	r, err := s.good(ctx, s.others, setupScript, s.keys.of(driver.KindLock), func(string) ([]any, error) {
		return []any{schemaVersion, s.channel}, nil
	})
	if errors.Is(err, errNodes) {
		return fmt.Errorf("%w: %w", driver.ErrInvalid, err)
	}
	if err != nil {
		return err
	}
	version, _ := r.text(0)
	if err := s.checkVersion(version); err != nil {
		return err
	}
	if silent, _ := r.text(1); silent != "" {
		s.silent = true
		s.problems.Add(driver.Problem{Reason: ReasonPolled, Message: "The user may not " +
			"publish on the channel " + s.channel +
			": changes are noticed by polling, a second late. Grant &shardctl:*."})
	}
	g, err := s.checkNodes(ctx)
	if err != nil {
		return err
	}
	s.problems.Looked(append(d.problems(), s.gateProblems(g)...))
	return nil
}

func (s *setup) checkVersion(text string) error {
	version, err := strconv.Atoi(text)
	if err != nil {
		return fmt.Errorf("%w: field schema of %s: no version", driver.ErrSchema, s.keys.state())
	}
	return driver.CheckSchema("field schema of "+s.keys.state(), version, schemaVersion)
}

// checkExisting reads what was set up before. The number of nodes is the one that is kept, if any.
func (s *setup) checkExisting(ctx context.Context) error {
	version, err := s.field(ctx, s.keys.state(), "schema")
	switch {
	case err != nil:
		return err
	case version == "":
		return nil // nothing is there yet: a reader finds nothing
	}
	if err := s.checkVersion(version); err != nil {
		return err
	}
	g, err := s.readGate(ctx)
	if n, wrong := strconv.Atoi(g.Nodes); wrong == nil && n > 0 {
		s.nodes = n
	}
	return err
}

// checkNodes compares the number of nodes that is kept with the one that is configured. Two that differ would mean two
// sizes of a majority.
func (s *setup) checkNodes(ctx context.Context) (gate, error) {
	g, err := s.readGate(ctx)
	if err != nil {
		return g, err
	}
	if g.Nodes != "" && g.Nodes != strconv.Itoa(s.nodes) {
		return g, fmt.Errorf("%w: nodes=%d is configured, and the key %s keeps nodes=%s: configure that number, or stop "+
			"every replica of shardctl for the duration of a lease and delete the key", driver.ErrInvalid, s.nodes,
			s.keys.gate(), g.Nodes)
	}
	return g, nil
}

// gateProblems says that the gate is closed until an operator opens it.
func (a *access) gateProblems(g gate) []driver.Problem {
	if !g.shut(a.nodes) {
		return nil
	}
	return []driver.Problem{{
		Reason:  ReasonClosed,
		Message: "The gate " + a.keys.gate() + " is closed: " + a.tooManySeen(g.Seen+g.Met) + ".",
	}}
}

// leastVersion is the oldest one whose scripts, ACL and INFO are as this package needs them, and that is still
// maintained.
const leastVersion = "6.2"

// description is what a server says of itself.
type description struct {
	info   map[string]string
	config map[string]string // nil: the user may not ask
}

// settings are those of the server's configuration that are looked at.
func settings() []string { return []string{"appendonly", "appendfsync", "replica-read-only"} }

// describe asks the server. It goes on to the master where the first server is none, or a cluster's keys are elsewhere.
func (a *access) describe(ctx context.Context) (d description, err error) {
	for tries := 1; ; tries++ {
		err = a.others.use(ctx, func(c *redis.Client) error {
			if err := c.HGet(ctx, a.keys.state(), "schema").Err(); err != nil && !errors.Is(err, redis.Nil) {
				return err // MOVED, in a cluster
			}
			d, err = ask(ctx, c)
			if err == nil && d.info["role"] == "slave" {
				return errReplica
			}
			return err
		})
		_, moved := movedTo(err)
		others := errors.Is(err, errReplica) && a.finder.target.master != ""
		if err == nil || tries == 3 || ctx.Err() != nil || !moved && !others {
			break
		}
	}
	if errors.Is(err, errReplica) {
		return d, fmt.Errorf("%w: name the master in the URI, or use redis+sentinel://", err)
	}
	return d, err
}

func ask(ctx context.Context, c *redis.Client) (description, error) {
	text, err := c.Do(ctx, "INFO").Text()
	if err != nil {
		return description{}, err
	}
	d := description{info: map[string]string{}, config: map[string]string{}}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			d.info[name] = value
		}
	}
	for _, name := range settings() {
		found, err := c.ConfigGet(ctx, name).Result()
		var answer redis.Error
		switch {
		case errors.As(err, &answer):
			d.config = nil
			return d, nil
		case err != nil:
			return d, err
		}
		d.config[name] = found[name]
	}
	return d, nil
}

// refuse says why this server will not do.
func (d description) refuse(cluster bool) error {
	version := d.info["redis_version"]
	if !strings.Contains(version, ".") {
		return fmt.Errorf("%w: INFO shows no redis_version: this service hides what the store needs", driver.ErrInvalid)
	}
	older, known := dbstore.Older(version, leastVersion)
	policy := d.info["maxmemory_policy"]
	switch {
	case older, !known:
		return fmt.Errorf("%w: Redis %.20s is too old: want %s or newer", driver.ErrInvalid, version, leastVersion)
	case cluster && d.info["cluster_enabled"] == "0":
		return fmt.Errorf("%w: the server is no cluster: use redis:// or redis+sentinel://", driver.ErrInvalid)
	case !cluster && d.info["cluster_enabled"] == "1":
		return fmt.Errorf("%w: the server is part of a cluster: use redis+cluster://", driver.ErrInvalid)
	case d.evicts() && d.info["maxmemory"] != "0":
		return fmt.Errorf("%w: maxmemory is set and maxmemory-policy is %s, so that locks may be dropped: set it to "+
			"noeviction", driver.ErrInvalid, policy)
	case d.config["replica-read-only"] == "no":
		return fmt.Errorf("%w: replica-read-only is no: set it to yes on every server, or a replica takes writes that "+
			"are lost", driver.ErrInvalid)
	}
	return nil
}

func (d description) evicts() bool {
	policy := d.info["maxmemory_policy"]
	return policy != "" && policy != "noeviction"
}

// durable says whether an acknowledged write is on the master's disk.
func (d description) durable() bool {
	return d.info["aof_enabled"] == "1" && d.config["appendfsync"] == "always"
}

func (d description) problems() []driver.Problem {
	var all []driver.Problem
	add := func(reason, message string) {
		all = append(all, driver.Problem{Reason: reason, Message: message})
	}
	switch {
	case d.info["aof_enabled"] != "1":
		add(ReasonNotDurable,
			"appendonly is no: a server that ends forgets what was acknowledged, and keys are claimed "+
				"again only after a lease. Set appendonly yes and appendfsync always.")
	case d.config == nil:
		add(ReasonUnknown, "The user may not read the server's configuration, so appendfsync and replica-read-only "+
			"were not checked. Grant +config|get, or make sure that they are always and yes.")
	case !d.durable():
		add(ReasonNotDurable, "appendfsync is "+d.config["appendfsync"]+": a machine that fails forgets what was "+
			"acknowledged, and keys are claimed again only after a lease. Set appendfsync always.")
	}
	when := "would be dropped as soon as maxmemory is set"
	if d.info["maxmemory"] != "0" { // since the store was opened, which refuses it
		when = "are dropped once maxmemory is reached"
	}
	if d.evicts() {
		add(ReasonEviction, "maxmemory-policy is "+d.info["maxmemory_policy"]+": locks "+when+". Set it to noeviction.")
	}
	if d.config["replica-read-only"] == "no" { // likewise
		add(ReasonNotDurable, "replica-read-only is no: a replica takes writes that are lost. Set it to yes on every "+
			"server.")
	}
	return all
}

// identity is what scripts compare, as INFO shows it.
func (d description) identity() string {
	return fmt.Sprintf("%s/%s/%s+%s", d.info["run_id"], d.info["master_replid"], d.info["sync_full"],
		d.info["sync_partial_ok"])
}

// Inspect says which server this is and how its writes become durable. See [store.Inspect].
func (b *backend) Inspect(ctx context.Context) (driver.Inspection, error) {
	d, err := b.describe(ctx)
	if err != nil {
		return driver.Inspection{}, err
	}
	server := "Redis " + d.info["redis_version"]
	if valkey := d.info["valkey_version"]; valkey != "" {
		server = "Valkey " + valkey
	}
	const unseen = "not readable by this user"
	config := func(name, want string) driver.Setting {
		value := cmp.Or(d.config[name], unseen)
		return driver.Setting{Name: name, Value: value, Want: want, Holds: value == want, Forgets: true}
	}
	appendOnly := "no"
	if d.info["aof_enabled"] == "1" {
		appendOnly = "yes"
	}
	connected, _ := strconv.Atoi(d.info["connected_slaves"])
	servers := driver.Setting{
		Name: "nodes", Value: strconv.Itoa(connected + 1), Want: strconv.Itoa(b.nodes) + " (configured)",
		Holds: connected+1 == b.nodes,
	}
	g, err := b.readGate(ctx)
	if err != nil {
		return driver.Inspection{}, err
	}
	return driver.Inspection{Server: server, Settings: append([]driver.Setting{
		{Name: "appendonly", Value: appendOnly, Want: "yes", Holds: appendOnly == "yes", Forgets: true},
		config("appendfsync", "always"),
		{
			Name: "maxmemory-policy", Value: d.info["maxmemory_policy"], Want: "noeviction", Holds: !d.evicts(),
			Forgets: true,
		},
		config("replica-read-only", "yes"),
		servers,
	}, g.settings(b.nodes, d.identity())...)}, nil
}
