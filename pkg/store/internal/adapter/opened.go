package adapter

import "github.com/shardctl/shardctl/pkg/store"

// Opened is what a [store.Driver] returns of its package's own Open. With an error it is nil: an interface that holds a
// nil pointer is not.
func Opened[S store.Store](s S, err error) (store.Store, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}
