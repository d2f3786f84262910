package storeuri

import (
	"errors"
	"slices"
	"sync"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/pkg/store/driver"
)

// Source gives what a store's URI says at the time of a connection: passwords, and the files that the URI names, may be
// renewed while the store is open. T is what a driver connects by. Its methods may be called concurrently.
//
// Of a renewed URI only the user, the password and other secrets may differ. One that names another place, other
// parameters included, is not followed: the documents that are held are not there.
//
// What is renewed is rarely written in one step. As long as it cannot be used, as a certificate whose key is not there
// yet or a password that is empty, the last one that could is used, and it is read again for the next connection.
type Source[T any] struct {
	renew   func() (string, error)
	secrets Secrets
	read    func(uri string) (T, error)
	log     logr.Logger

	mu     sync.Mutex
	uri    string
	last   T
	hidden []string
	said   string // why it could not be renewed, as logged last
}

// NewSource reads the URI of a configuration, which was parsed, and its files for the first time. read is called by one
// goroutine at a time, and its errors are passed on.
func NewSource[T any](c driver.Config, secrets Secrets, read func(uri string) (T, error)) (*Source[T], error) {
	s := &Source[T]{renew: c.Renew, secrets: secrets, read: read, log: c.Logger, uri: c.URI, hidden: secrets.Of(c.URI)}
	var err error
	s.last, err = read(c.URI)
	return s, err
}

// Get reads what holds now. Call it once for each connection, and not for each call.
func (s *Source[T]) Get() T {
	s.mu.Lock()
	defer s.mu.Unlock()
	uri, err := s.fresh()
	var now T
	if err == nil {
		now, err = s.read(uri)
	}
	switch {
	case err == nil:
		s.uri, s.last, s.said = uri, now, ""
	case s.said != err.Error():
		s.said = err.Error()
		s.log.Info("What the store's URI and its files say now cannot be used: the last that could is",
			"error", Scrub(s.said, s.hidden))
	}
	return s.last
}

// fresh is the URI of now.
func (s *Source[T]) fresh() (string, error) {
	if s.renew == nil {
		return s.uri, nil
	}
	uri, err := s.renew()
	if err != nil || uri == s.uri {
		return s.uri, err
	}
	s.hide(uri)
	was, before := s.secrets.login(s.uri)
	place, who := s.secrets.login(uri)
	switch {
	case place != was:
		return "", errElsewhere
	case missing(who) > missing(before):
		return "", errEmpty
	}
	return uri, nil
}

var (
	errElsewhere = errors.New("the renewed URI differs in more than the user, the password and other secrets, " +
		"which counts only after a restart")
	errEmpty = errors.New("the renewed URI has an empty user or password where there was one")
)

func missing(who []string) (n int) {
	for _, one := range who {
		if one == "" {
			n++
		}
	}
	return n
}

// maxHidden bounds how many secrets are remembered.
const maxHidden = 64

// hide remembers the secrets of a URI, the longest first: one may begin with another.
func (s *Source[T]) hide(uri string) {
	for _, secret := range s.secrets.Of(uri) {
		if secret != "" && !slices.Contains(s.hidden, secret) {
			s.hidden = append(s.hidden, secret)
		}
	}
	s.hidden = s.hidden[max(0, len(s.hidden)-maxHidden):]
}

// Hidden are the secrets that were seen so far, old and new. They are the caller's.
func (s *Source[T]) Hidden() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.Clone(s.hidden)
	slices.SortStableFunc(all, func(a, b string) int { return len(b) - len(a) })
	return all
}
