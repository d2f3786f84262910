package config

import (
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/tasks/decode"
)

// Masked is the store's URI as it can be shown: without its password and other secrets. It takes wrong URIs as well,
// and then rather hides too much.
func (s Store) Masked() string { return masked(s.URI) }

// masked hides the secrets of a store's URI, and the passwords of any other.
func masked(text string) string {
	if d, err := store.Lookup(text); err == nil {
		return d.Redact(text)
	}
	return decode.WithoutPasswords(text)
}
