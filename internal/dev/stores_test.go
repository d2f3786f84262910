package dev

// The stores that configurations of these tests name.
import (
	_ "github.com/shardctl/shardctl/pkg/store/mongo"
	_ "github.com/shardctl/shardctl/pkg/store/sqlite"
)
