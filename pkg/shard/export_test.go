package shard

import "github.com/shardctl/shardctl/pkg/elect"

// SetClock replaces the clock by which leases are counted.
func (o *Options) SetClock(c elect.Clock) { o.clock = c }
