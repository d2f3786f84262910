// Package operate turns what an operator asks for into documents of the store, or says why it cannot be.
//
// [Decide] is pure: it goes by what is known of the cluster, reads no clock and writes nothing. A [Writer] writes what
// it decided. The admin listener of a replica uses both, and so do commands that reach for the store themselves. A
// refusal reads the same in both ways.
package operate

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/internal/verbs"
	"github.com/shardctl/shardctl/pkg/api"
)

// Request is one thing asked for.
type Request struct {
	Verb api.Verb
	// Scope is what it is about, and Names are keys, one group or one instance.
	Scope record.Scope
	Names []string

	// To is the target of a verb that has one: an instance, or for pins also a pattern as in path.Match, or zone=Z.
	To     string
	Strict bool // of a pin: a task stays unassigned rather than go elsewhere

	// For is how long it stands, at least [MinFor] and at most [MaxFor]; 0: until it is taken back. It goes with verbs
	// that last.
	For time.Duration

	By     string // name of a token, or of a user of the operating system
	Reason string // for people; may be empty
	ID     string // the same twice is one request; may be empty
}

// Keys are the keys of the tasks that the request is about.
func (r Request) Keys() []string {
	if r.Scope != record.ScopeTask {
		return nil
	}
	return r.Names
}

// How long an override may stand that ends by itself.
const (
	MinFor = time.Second
	MaxFor = 365 * 24 * time.Hour
)

// ErrInvalid is wrapped by errors that say what is wrong with a request in itself.
var ErrInvalid = errors.New("invalid request")

// Validate says what is wrong with the request, whatever the cluster is like.
func (r Request) Validate() error {
	fit := verbs.Of(r.Scope)
	if !slices.Contains(fit, r.Verb) {
		return invalid("verb", "%q does not go with a %s; want one of %s", r.Verb, r.Scope, join(fit))
	}
	if len(r.Names) == 0 {
		return invalid(string(r.Scope), "none is named")
	}
	if r.Scope != record.ScopeTask && len(r.Names) > 1 {
		return invalid(string(r.Scope), "%d are named, one is allowed", len(r.Names))
	}
	for field, text := range map[string]string{"reason": r.Reason, "by": r.By, "id": r.ID, "instance": r.To} {
		if err := record.ValidateAsked(text); err != nil {
			return invalid(field, "%w", err)
		}
	}
	verb, _ := verbs.Find(r.Verb)
	if err := r.validateFor(verb); err != nil {
		return err
	}
	return r.validateTo(verb)
}

// ParseFor reads how long an override is to stand, such as 1h30m; empty is 0.
func ParseFor(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d == 0 {
		return 0, invalid("for", "%.80q: want a duration from %s to %s, such as 90s, 20m or 1h30m", text,
			MinFor,
			MaxFor)
	}
	return d, nil
}

func (r Request) validateFor(verb verbs.Verb) error {
	switch {
	case r.For == 0:
		return nil
	case !verb.Lasts():
		lasting := verbs.Names(verbs.Verb.Lasts)
		last := len(lasting) - 1
		return invalid("for", "%s: %s takes none; %s and %s do", r.For, r.Verb, join(lasting[:last]), lasting[last])
	case r.For < MinFor || r.For > MaxFor:
		return invalid("for", "%s: want %s to %s", r.For, MinFor, MaxFor)
	default:
		return nil
	}
}

func (r Request) validateTo(verb verbs.Verb) error {
	switch verb.Target {
	case verbs.ToPlace:
		if r.To == "" {
			return invalid("instance", "want an instance, a pattern, or zone=ZONE")
		}
		if _, err := path.Match(r.To, ""); err != nil {
			return invalid("instance", "%q: %w; want an instance, a pattern such as web-*, or zone=ZONE", r.To, err)
		}
	case verbs.ToInstance:
		if r.To == "" {
			return invalid("instance", "want the instance to %s it to", r.Verb)
		}
	case verbs.NoTarget:
		if r.To != "" {
			return invalid("instance", "%q: %s takes none", r.To, r.Verb)
		}
	}
	if r.Strict && verb.Target != verbs.ToPlace {
		return invalid("strict", "only pin takes it")
	}
	return nil
}

// InvalidError says which field of a request is wrong. It wraps [ErrInvalid].
type InvalidError struct {
	Field string
	Err   error
}

func (e *InvalidError) Error() string { return e.Field + ": " + e.Err.Error() }

// Unwrap makes it an [ErrInvalid].
func (e *InvalidError) Unwrap() []error { return []error{ErrInvalid, e.Err} }

func invalid(field, format string, args ...any) error {
	return &InvalidError{Field: field, Err: fmt.Errorf(format, args...)}
}

// override is the document that the verb is about.
func (r Request) override(name string) record.Override {
	verb, _ := verbs.Find(r.Verb)
	return record.Override{
		Kind: verb.Kind, Scope: r.Scope, Name: name, Request: r.ID, To: r.To, Strict: r.Strict, By: r.By,
		Reason: r.Reason,
	}
}

// takesBack reports whether the request ends what another verb began.
func (r Request) takesBack() bool {
	verb, _ := verbs.Find(r.Verb)
	return verb.TakesBack()
}

func join(verbs []api.Verb) string {
	texts := make([]string, len(verbs))
	for i, v := range verbs {
		texts[i] = string(v)
	}
	return strings.Join(texts, ", ")
}
