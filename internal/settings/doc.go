// Package settings holds what a replica is configured with, as plain data: checked, with every default filled in.
// Package config reads it from files, package shard makes it of a configuration in Go.
package settings
