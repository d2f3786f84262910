package shard

import (
	"fmt"

	"github.com/shardctl/shardctl/pkg/tasks"
)

// Slot is the number of the slot that a key has among slots, from 0 on. It is the same in every process and
// every language. It panics where slots is below 1.
func Slot(key string, slots int) int { return tasks.Slot(key, slots) }

// SlotName is the name of a slot among slots, as [Lease.Name] has it: slot-000 and so on.
func SlotName(slot, slots int) string { return tasks.SlotName(slot, slots) }

// Slot is the slot that a key, any text, has in a group with Slots: GROUP/slot-007, as Owner takes it.
func (r *Replica) Slot(group, key string) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, g := range r.groups {
		if g.Name != group {
			continue
		}
		if g.Slots == 0 {
			return "", fmt.Errorf("group %q has no Slots", group)
		}
		return tasks.SlotKey(group, key, g.Slots), nil
	}
	return "", fmt.Errorf("there is no group %q", group)
}
