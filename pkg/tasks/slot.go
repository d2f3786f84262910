package tasks

import (
	"fmt"
	"hash/fnv"
	"strconv"
)

// Slot is the slot of a key among slots: fmix64(fnv1a64(key)) mod slots, from 0 to slots-1, in every language:
// clients/testdata/slots.json has test vectors. It panics where slots is below 1.
//
// A key keeps its slot for as long as slots stays the same: with another number nearly all keys have another slot.
func Slot(key string, slots int) int {
	if slots < 1 {
		panic(fmt.Sprintf("tasks: Slot: slots is %d, must be at least 1", slots))
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(key))                   // a hash takes everything
	return int(fmix64(h.Sum64()) % uint64(slots)) //nolint:gosec // less than slots, which is an int
}

// fmix64 is the finalizer of MurmurHash3. FNV-1a alone spreads short keys that differ in their last letters badly.
func fmix64(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// SlotName is the name of a slot among slots as a task: slot-000 and so on, with as many digits as the last one has, at
// least three.
func SlotName(slot, slots int) string {
	return fmt.Sprintf("slot-%0*d", max(3, len(strconv.Itoa(slots-1))), slot)
}

// SlotKey is GROUP/NAME of the task that is the slot of a key in a group with that many slots.
func SlotKey(group, key string, slots int) string {
	return group + "/" + SlotName(Slot(key, slots), slots)
}

// SlotNames are the names of all slots, in order.
func SlotNames(slots int) []string {
	names := make([]string, slots)
	for i := range names {
		names[i] = SlotName(i, slots)
	}
	return names
}
