package status

// change is one item that differs between two snapshots; before or after is nil when it is not there.
type change[T any] struct{ before, after *T }

// diff compares two lists, both in order of id.
func diff[T any](before, after []T, id func(*T) string, same func(a, b *T) bool) []change[T] {
	if len(before) == len(after) && (len(after) == 0 || &before[0] == &after[0]) {
		return nil // while nothing has changed, one snapshot shares its lists with the next
	}
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
