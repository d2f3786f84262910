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

	To     string // move: an instance; pin: an instance, a pattern as in path.Match, or zone=Z
	Strict bool   // pin: a task stays unassigned rather than go elsewhere

	// For is how long it stands, at least [MinFor] and at most [MaxFor]; 0: until it is taken back. It goes with pause,
	// pin, drain and cordon.
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
		return r.invalid("verb", "%q does not go with a %s; want one of %s", r.Verb, r.Scope, join(fit))
	}
	if len(r.Names) == 0 {
		return r.invalid(string(r.Scope), "none is named")
	}
	if r.Scope != record.ScopeTask && len(r.Names) > 1 {
		return r.invalid(string(r.Scope), "%d are named, one is allowed", len(r.Names))
	}
	for field, text := range map[string]string{"reason": r.Reason, "by": r.By, "id": r.ID, "instance": r.To} {
		if err := record.ValidateAsked(text); err != nil {
			return r.invalid(field, "%w", err)
		}
	}
	if err := r.validateFor(); err != nil {
		return err
	}
	return r.validateTo()
}

// ParseFor reads how long an override is to stand, such as 1h30m; empty is 0.
func ParseFor(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d == 0 {
		return 0, Request{}.invalid("for", "%.80q: want a duration from %s to %s, such as 90s, 20m or 1h30m", text,
			MinFor,
			MaxFor)
	}
	return d, nil
}

func (r Request) validateFor() error {
	switch {
	case r.For == 0:
		return nil
	case !slices.Contains([]api.Verb{api.Pause, api.Pin, api.Drain, api.Cordon}, r.Verb):
		return r.invalid("for", "%s: %s takes none; pause, pin, drain and cordon do", r.For, r.Verb)
	case r.For < MinFor || r.For > MaxFor:
		return r.invalid("for", "%s: want %s to %s", r.For, MinFor, MaxFor)
	default:
		return nil
	}
}

func (r Request) validateTo() error {
	switch r.Verb {
	case api.Pin:
		if r.To == "" {
			return r.invalid("instance", "want an instance, a pattern, or zone=ZONE")
		}
		if _, err := path.Match(r.To, ""); err != nil {
			return r.invalid("instance", "%q: %w; want an instance, a pattern such as web-*, or zone=ZONE", r.To, err)
		}
	case api.Move:
		if r.To == "" {
			return r.invalid("instance", "want the instance to move it to")
		}
	default:
		if r.To != "" {
			return r.invalid("instance", "%q: %s takes none", r.To, r.Verb)
		}
	}
	if r.Strict && r.Verb != api.Pin {
		return r.invalid("strict", "only pin takes it")
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

func (r Request) invalid(field, format string, args ...any) error {
	return &InvalidError{Field: field, Err: fmt.Errorf(format, args...)}
}

// override is the document that the verb is about.
func (r Request) override(name string) record.Override {
	kinds := map[api.Verb]record.OverrideKind{
		api.Drain: record.OverrideDrain, api.Undrain: record.OverrideDrain,
		api.Cordon: record.OverrideCordon, api.Uncordon: record.OverrideCordon,
		api.Pause: record.OverridePause, api.Resume: record.OverridePause,
		api.Pin: record.OverridePin, api.Unpin: record.OverridePin,
		api.Restart: record.OverrideRestart, api.Rerun: record.OverrideRerun, api.Trigger: record.OverrideTrigger,
		api.Move: record.OverrideMove, api.Rebalance: record.OverrideRebalance,
	}
	return record.Override{
		Kind: kinds[r.Verb], Scope: r.Scope, Name: name, Request: r.ID, To: r.To, Strict: r.Strict, By: r.By,
		Reason: r.Reason,
	}
}

// takesBack says whether a verb ends what another began.
func takesBack(v api.Verb) bool {
	return slices.Contains([]api.Verb{api.Undrain, api.Uncordon, api.Resume, api.Unpin}, v)
}

func join(verbs []api.Verb) string {
	texts := make([]string, len(verbs))
	for i, v := range verbs {
		texts[i] = string(v)
	}
	return strings.Join(texts, ", ")
}
