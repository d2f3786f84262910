package snapshot

import "sync"

// List is a list that is not changed, in the order that the API promises. One of [Later] takes no memory before it is
// read: a replica may know very many tasks and have no reader. Snapshots that share a list have equal ones. The zero
// value is empty. It may be used from many goroutines.
type List[T any] struct{ made *later[T] }

type later[T any] struct{ items func() []T }

// Listed is a list of these items.
func Listed[T any](items []T) List[T] { return List[T]{&later[T]{func() []T { return items }}} }

// Later is the list that items returns. It is called when the list is read for the first time, and once.
func Later[T any](items func() []T) List[T] { return List[T]{&later[T]{sync.OnceValue(items)}} }

// All are the items, which the caller must not change.
func (l List[T]) All() []T {
	if l.made == nil {
		return nil
	}
	return l.made.items()
}
