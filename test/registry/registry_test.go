// Package registry_test is about the registry of stores in a program without any driver. The tests of package store have
// one.
package registry_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// paper is a driver whose stores cannot be opened.
type paper struct{ driver.Driver }

func (paper) Form(scheme string) string { return scheme + ":NAME" }

func (paper) Parse(c store.Config) (store.Config, error) {
	if strings.HasSuffix(c.URI, ":") {
		return c, &store.FieldError{Field: "uri", Text: "names nothing"}
	}
	c.Database = "filled in"
	return c, nil
}

func (paper) Redact(string) string { return "paper:xxxxx" }

func (paper) Open(_ context.Context, c store.Config) (store.Store, error) {
	return nil, errors.New(c.Database)
}

func (paper) LocalURI(path string) string { return "paper:" + path }

func TestRegistry(t *testing.T) {
	if _, err := driver.LocalURI("x"); !errors.Is(err, driver.ErrNoLocal) {
		t.Errorf("nothing registered: %v", err)
	}
	driver.Register("paper", paper{})
	driver.Register("leaf", paper{})
	for _, scheme := range []string{"", "a:b", "paper"} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("scheme %q was registered", scheme)
				}
			}()
			driver.Register(scheme, paper{})
		}()
	}
	if got := driver.Forms(); got != "leaf:NAME or paper:NAME" {
		t.Errorf("forms: %s", got)
	}
	if uri, err := driver.LocalURI("x"); uri != "paper:x" || err != nil {
		t.Errorf("local: %s, %v", uri, err)
	}
	for uri, want := range map[string]string{
		"":                  "is required: leaf:NAME or paper:NAME",
		"stone:secret@host": "does not begin with a known scheme, must be leaf:NAME or paper:NAME",
		"paper:":            "names nothing",
	} {
		_, err := driver.Parse(store.Config{URI: uri})
		wrong, ok := errors.AsType[*store.FieldError](err)
		if !ok || wrong.Field != "uri" || wrong.Text != want || !errors.Is(err, store.ErrInvalid) {
			t.Errorf("parse %q: %v, want %q", uri, err, want)
		}
	}
	if _, err := store.Open(t.Context(), store.Config{URI: "paper:x"}); err == nil || err.Error() != "filled in" {
		t.Errorf("open is given what Parse made of it: %v", err)
	}
	if _, err := store.Open(t.Context(), store.Config{URI: "paper:"}); !errors.Is(err, store.ErrInvalid) ||
		strings.Contains(err.Error(), "paper::") {
		t.Errorf("open of a wrong URI: %v", err)
	}
}
