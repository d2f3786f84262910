package config

import (
	"crypto/sha256"

	"github.com/shardctl/shardctl/internal/decode"
	"github.com/shardctl/shardctl/internal/settings"
)

// Config is a configuration as it was read: its settings, and what is known of the files that they stand in. It is
// never changed once [Load] has returned it.
type Config struct {
	*settings.Settings
	// Files are the files that were read, in order; of a directory, those in it.
	Files []string
	// Warnings are what is allowed, and probably not meant, with its places.
	Warnings decode.Errors

	seen   [sha256.Size]byte // what the files held
	source source
}

// withLists is c with the task lists of another configuration: what a running replica goes on with after a reload.
func (c *Config) withLists(from *Config) *Config {
	merged, s := *c, *c.Settings
	s.Groups, s.Revision = from.Groups, from.Revision
	merged.Settings, merged.Files, merged.Warnings, merged.seen = &s, from.Files, from.Warnings, from.seen
	merged.source.groups = from.source.groups
	return &merged
}

// changed lists the fields, as lease.duration, outside the task lists in which two configurations differ. A running
// replica takes them up only when it is restarted. Of the task lists are groups, with all that is in them, and
// revision.
func changed(before, after *settings.Settings) []string {
	return settings.FieldsOf(after, nil).Changed(settings.FieldsOf(before, nil))
}
