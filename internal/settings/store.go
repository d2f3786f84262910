package settings

import (
	"regexp"

	"github.com/shardctl/shardctl/internal/decode"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// Store says where locks are kept.
type Store struct {
	// URI begins with a registered scheme (see package store). It may hold a password: show [Store.Masked] instead.
	URI      string
	Renew    func() (string, error) // as in [store.Config]
	Database string                 // never empty where the store keeps several on one server
	// Withheld are the variables of the environment that hold the store's secrets: commands do not get them.
	Withheld []string
	// DatabaseHidden says that Database follows from a URI that came from outside the files: it is not printed.
	DatabaseHidden bool
	// Written is the URI in the file, before anything was replaced; empty of settings made in Go.
	Written string
}

// Kind returns the name of the store's driver, or an empty text if there is none.
func (s Store) Kind() string {
	d, err := driver.Lookup(s.URI)
	if err != nil {
		return ""
	}
	return d.Name()
}

// Masked returns the URI as it can be shown, without its password and other secrets. Of a malformed URI it rather hides
// too much.
func (s Store) Masked() string {
	if d, err := driver.Lookup(s.URI); err == nil {
		return d.Redact(s.URI)
	}
	return decode.WithoutPasswords(s.URI)
}

// logsIn matches who logs in, in a URI whose secrets are hidden.
var logsIn = regexp.MustCompile("://[^/?@]*@")

// Lasting returns the part of the URI that counts only after a restart: all but user and password where they are
// renewed.
func (s Store) Lasting() string {
	if s.Renew == nil {
		return s.URI
	}
	return s.Written + " " + logsIn.ReplaceAllString(s.Masked(), "://")
}
