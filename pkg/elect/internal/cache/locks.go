package cache

import (
	"maps"

	"github.com/shardctl/shardctl/pkg/elect/record"
)

// locks are the locks kept, of all tracked groups. Each stays as it is, so that views, and the leases of what is
// held here, share it. The map that is shown is shared too, until something changes: only then is it copied.
type locks struct {
	all   map[record.Key]*record.Lock
	shown bool // all is in a view, and stays as it is
}

// show is the map as it is now, which is not changed any more.
func (l *locks) show() map[record.Key]*record.Lock {
	l.shown = true
	return l.all
}

// own is the map, to be changed.
func (l *locks) own() map[record.Key]*record.Lock {
	if l.shown {
		l.all, l.shown = maps.Clone(l.all), false
	}
	return l.all
}

// forget forgets the locks that gone says are.
func (l *locks) forget(gone func(record.Key) bool) {
	maps.DeleteFunc(l.own(), func(key record.Key, _ *record.Lock) bool { return gone(key) })
}

// same says whether two locks hold the same.
func same(a, b *record.Lock) bool {
	if a == b {
		return true
	}
	x, y := *a, *b
	was, is := x.Status.Outcome, y.Status.Outcome
	x.Status.Outcome, y.Status.Outcome = nil, nil
	return x == y && (was == is || was != nil && is != nil && *was == *is)
}
