package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/internal/engine"
)

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
		return fmt.Errorf("%w: INFO shows no redis_version: this service hides what the store needs", store.ErrInvalid)
	}
	older, known := engine.Older(version, leastVersion)
	policy := d.info["maxmemory_policy"]
	switch {
	case older, !known:
		return fmt.Errorf("%w: Redis %.20s is too old: want %s or newer", store.ErrInvalid, version, leastVersion)
	case cluster && d.info["cluster_enabled"] == "0":
		return fmt.Errorf("%w: the server is no cluster: use redis:// or redis+sentinel://", store.ErrInvalid)
	case !cluster && d.info["cluster_enabled"] == "1":
		return fmt.Errorf("%w: the server is part of a cluster: use redis+cluster://", store.ErrInvalid)
	case d.evicts() && d.info["maxmemory"] != "0":
		return fmt.Errorf("%w: maxmemory is set and maxmemory-policy is %s, so that locks may be dropped: set it to "+
			"noeviction", store.ErrInvalid, policy)
	case d.config["replica-read-only"] == "no":
		return fmt.Errorf("%w: replica-read-only is no: set it to yes on every server, or a replica takes writes that are "+
			"lost", store.ErrInvalid)
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

func (d description) problems() []store.Problem {
	var all []store.Problem
	add := func(reason, message string) {
		all = append(all, store.Problem{Reason: reason, Message: message})
	}
	switch {
	case d.info["aof_enabled"] != "1":
		add(ReasonNotDurable,
			"appendonly is no: a server that ends forgets what was acknowledged, and keys are claimed "+
				"again only after a lease. Set appendonly yes and appendfsync always.")
	case d.config == nil:
		add(ReasonUnknown, "The user may not read the server's configuration, so appendfsync and replica-read-only were "+
			"not checked. Grant +config|get, or make sure that they are always and yes.")
	case !d.durable():
		add(ReasonNotDurable, "appendfsync is "+d.config["appendfsync"]+": a machine that fails forgets what was "+
			"acknowledged, and keys are claimed again only after a lease. Set appendfsync always.")
	}
	if d.evicts() {
		add(ReasonEviction, "maxmemory-policy is "+d.info["maxmemory_policy"]+": locks would be dropped as soon as maxmemory "+
			"is set. Set it to noeviction.")
	}
	return all
}

// identity is what scripts compare, as INFO shows it.
func (d description) identity() string {
	return fmt.Sprintf("%s/%s/%s+%s", d.info["run_id"], d.info["master_replid"], d.info["sync_full"],
		d.info["sync_partial_ok"])
}
