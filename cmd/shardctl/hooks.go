//go:build !testhooks

package main

import "github.com/shardctl/shardctl/pkg/elect"

// hooked is the store as it is. A build for tests can have it write what a later version might.
func hooked(store elect.Store) elect.Store { return store }
