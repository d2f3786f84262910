// Package settings holds what a replica is configured with, as plain data: checked, with every default filled in.
// [FieldsOf] and [GroupFieldsOf] declare each field once: the schema, reading, printing and documentation come from
// there. Package config reads files by them, package shard makes settings of a configuration in Go.
package settings
