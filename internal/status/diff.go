package status

import "sync"

// change is one item that differs between two snapshots; before or after is nil when it is not there.
type change[T any] struct{ before, after *T }

// diff compares two lists, both in order of id.
func diff[T any](before, after []T, id func(*T) string, same func(a, b *T) bool) []change[T] {
	var changes []change[T]
	i, j := 0, 0
	for i < len(before) || j < len(after) {
		switch {
		case j == len(after) || i < len(before) && id(&before[i]) < id(&after[j]):
			changes = append(changes, change[T]{before: &before[i]})
			i++
		case i == len(before) || id(&before[i]) > id(&after[j]):
			changes = append(changes, change[T]{after: &after[j]})
			j++
		default:
			if !same(&before[i], &after[j]) {
				changes = append(changes, change[T]{&before[i], &after[j]})
			}
			i++
			j++
		}
	}
	return changes
}

// differ remembers the last comparison. Watchers that keep up all ask for the same one, and with ten thousand tasks it
// should not be made once for each.
type differ[T any] struct {
	collection[T]

	mu       sync.Mutex
	from, to *Snapshot
	changes  []change[T]
}

// forget frees the snapshots of the last comparison once there are no watchers.
func (d *differ[T]) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.from, d.to, d.changes = nil, nil, nil
}

func (d *differ[T]) between(from, to *Snapshot) []change[T] {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.from != from || d.to != to {
		d.from, d.to = from, to
		d.changes = diff(d.items(from), d.items(to), d.id, d.same)
	}
	return d.changes
}
