package dev

// The stores that configurations of these tests name.
import (
	_ "github.com/shardctl/shardctl/pkg/elect/mongostore"
	_ "github.com/shardctl/shardctl/pkg/elect/sqlstore/sqlite"
)
