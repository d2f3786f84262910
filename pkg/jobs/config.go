package jobs

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/store"
)

// DefaultGroup is the group of jobs.
const DefaultGroup = "jobs"

// Config is what a [Manager] is made of. Only Store is required.
type Config struct {
	// Store keeps who owns which job, and the history. All processes share it.
	Store store.Store
	// Elector holds the jobs. It is on the same Store, is started before Run and ended after it. Nil: Run starts and
	// ends one of its own.
	Elector *elect.Elector
	// Instance is the name of this process, as history shows it. Default: the host name.
	Instance string
	// Lease is the duration of the leases, 1 s to 24 h: how long a dead process keeps its jobs from the others.
	// Default: the Elector's, or 20 s. With an Elector no other is allowed.
	Lease time.Duration
	// Group is the first part of the jobs' keys, GROUP/NAME. Default: DefaultGroup. A configuration of shardctl on the
	// same cluster must not have a group of that name.
	Group  string
	Logger logr.Logger
}

func (c *Config) setDefaults() error {
	if c.Store == nil {
		return errors.New("store: required")
	}
	c.Group = cmp.Or(c.Group, DefaultGroup)
	if c.Elector != nil {
		of := c.Elector.LeaseDuration()
		if c.Lease != 0 && c.Lease != of {
			return fmt.Errorf("lease: %v: must be that of the elector, %v, or left out", c.Lease, of)
		}
		c.Lease = of
	}
	c.Lease = cmp.Or(c.Lease, protocol.DefaultLease)
	if c.Instance != "" {
		return nil
	}
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("instance: required, since the host has no name: %w", err)
	}
	c.Instance = host
	return nil
}
