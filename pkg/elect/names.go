package elect

import (
	"slices"

	"github.com/shardctl/shardctl/pkg/elect/internal/engine"
	"github.com/shardctl/shardctl/pkg/elect/record"
)

// Names of package record that users of this package meet.
type (
	// Key names what is locked: GROUP/NAME.
	Key = record.Key
	// Reason says in one word why a key changed its owner.
	Reason = record.Reason
	// Member is what a session says of itself.
	Member = record.Member
	// TaskStatus is what the owner says of the work.
	TaskStatus = record.TaskStatus
	// Lag is how far a subscription is behind.
	Lag = record.Lag
	// RunOutcome is how a task that ends by itself ended.
	RunOutcome = record.RunOutcome
)

// NewKey joins a group and a name.
func NewKey(group, name string) Key { return record.NewKey(group, name) }

func sortKeys(keys []Key) []Key {
	slices.Sort(keys)
	return keys
}

// CounterOf is the ID of the counter, of kind group, that is incremented when the key's lock was written. It carries
// the largest revision among the locks that it counts.
func CounterOf(key Key) string { return engine.CounterOf(key) }
