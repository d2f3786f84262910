package record

import "strings"

// Key names what is locked: GROUP/NAME. A group never holds a slash; a name may not either (the configuration
// sees to both), but nothing here relies on that for names.
type Key string

// GroupDiscovery is the group of the locks under which one replica looks for what exists. No group's name begins so.
const GroupDiscovery = "~discovery"

// GroupWeights is the group of the locks under which one replica publishes weights. No group's name begins so either.
const GroupWeights = "~weights"

// GroupMutexes is how IDs of mutexes begin, before a slash. The counter of the name carries the largest token of those
// that were deleted.
const GroupMutexes = "locks"

// Chore says whether the key is no task's: a replica holds it while it does something for all of them.
func (k Key) Chore() bool { return strings.HasPrefix(string(k), "~") }

// NewKey joins a group and a name.
func NewKey(group, name string) Key { return Key(group + "/" + name) }

// Group is the part before the first slash; all of it when there is none.
func (k Key) Group() string {
	group, _, _ := strings.Cut(string(k), "/")
	return group
}

// Name is the part after the first slash, empty when there is none.
func (k Key) Name() string {
	_, name, _ := strings.Cut(string(k), "/")
	return name
}
