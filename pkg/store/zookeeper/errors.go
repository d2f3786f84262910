package zookeeper

import (
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/shardctl/shardctl/pkg/store"
)

// isAnswer says that the ensemble has decided about a change: its condition did not hold, and nothing was written.
func isAnswer(err error) bool {
	for _, one := range []error{zk.ErrNoNode, zk.ErrNodeExists, zk.ErrBadVersion, zk.ErrNotEmpty} {
		if errors.Is(err, one) {
			return true
		}
	}
	return false
}

// isInvalid says that to try again is no use.
func isInvalid(err error) bool {
	for _, one := range []error{zk.ErrNoAuth, zk.ErrAuthFailed, zk.ErrInvalidACL, errRefused, store.ErrInvalid} {
		if errors.Is(err, one) {
			return true
		}
	}
	return false
}

// translate makes an error one of the store's. It never holds the password: neither the library nor a server says it.
func (a *access) translate(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrSchema), errors.Is(err, store.ErrInvalid), errors.Is(err, store.ErrUnavailable):
		return fmt.Errorf("%s: %w", what, err)
	case errors.Is(err, zk.ErrNoAuth):
		return fmt.Errorf("%s: %w: %s may not do this below %s (%w): wrong password, or grant cdrw there", what,
			store.ErrInvalid, a.who(), a.base, err)
	case isInvalid(err):
		return fmt.Errorf("%s: %w: %w", what, store.ErrInvalid, err)
	}
	return fmt.Errorf("%s: %w: %w", what, store.ErrUnavailable, err)
}

// who is the user, for people.
func (a *access) who() string {
	if a.client.user == "" {
		return "anyone (the URI names no user)"
	}
	return "user " + a.client.user
}
