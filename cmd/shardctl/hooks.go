//go:build !testhooks

package main

import (
	"github.com/shardctl/shardctl/pkg/store"
)

// hooked is the store as it is. A build for tests can have it write what a later version might.
func hooked(db store.Store) store.Store { return db }
