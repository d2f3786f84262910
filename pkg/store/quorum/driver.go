package quorum

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/internal/engine"
	"github.com/shardctl/shardctl/pkg/store/internal/quorum"
)

func init() { store.Register(scheme, registered{}) }

// registered is what the registry knows of quorums. The stores that a quorum is made of register themselves.
type registered struct{}

// Name implements [store.Driver].
func (registered) Name() string { return "quorum" }

// Form implements [store.Driver].
func (registered) Form(of string) string { return of + ":URI,URI,URI" }

// Parse implements [store.Driver].
func (registered) Parse(c store.Config) (store.Config, error) {
	if c.Database != "" {
		text := fmt.Sprintf("is %.80q, must be left out: the URI of each server names its own", c.Database)
		return c, &store.FieldError{Field: "database", Text: text}
	}
	var err error
	if c.Cluster, err = engine.Cluster(c.Cluster); err != nil {
		return c, err
	}
	if !engine.ValidCluster(c.Cluster + suffix) {
		text := "is too long: a quorum adds " + suffix + " to it, and that must be at most 63 characters"
		return c, &store.FieldError{Field: "cluster", Text: text}
	}
	o, err := options(c)
	if err == nil {
		_, err = o.read()
	}
	return c, err
}

// suffix of the cluster's name keeps its documents apart from those of a cluster that uses one of the servers alone.
const suffix = ".quorum"

// part is the configuration of one server.
func part(c store.Config, i int, uri string) (store.Config, error) {
	c.URI, c.Cluster = uri, c.Cluster+suffix
	d, err := store.Lookup(uri)
	if err == nil && d.Name() == (registered{}).Name() {
		err = &store.FieldError{Field: "uri", Text: "is a quorum, must be another store"}
	}
	if err == nil {
		c, err = d.Parse(c)
	}
	if err == nil {
		if why := store.Forgets(c); why != "" {
			err = &store.FieldError{Field: "uri", Text: "may forget what it acknowledged, and must not: " + why}
		}
	}
	if wrong, ok := errors.AsType[*store.FieldError](err); ok {
		err = &store.FieldError{Field: "uri", Text: fmt.Sprintf("server %d, %s, %s", i+1, redacted(uri), wrong.Text)}
	}
	return c, err
}

// InitConfig is [Init] for the quorum that a configuration names.
func InitConfig(ctx context.Context, c store.Config) (made bool, err error) {
	if c, err = store.Parse(c); err != nil {
		return false, err
	}
	o, err := options(c)
	if err != nil {
		return false, err
	}
	return Init(ctx, o)
}

// options are those of a configuration.
func options(c store.Config) (Options, error) {
	o := Options{Cluster: c.Cluster, Timeout: c.Timeout, Existing: c.Existing, Logger: c.Logger}
	for i, uri := range split(c.URI) {
		own, err := part(c, i, uri)
		if err != nil {
			return o, err
		}
		o.Servers = append(o.Servers, Server{
			Name: place(uri),
			Open: func(ctx context.Context) (store.Store, error) { return store.Open(ctx, own) },
		})
	}
	return o, nil
}

// place is a URI without what may change while the server stays the same: user, password, parameters.
func place(uri string) string {
	uri, _, _ = strings.Cut(uri, "?")
	of, rest, found := strings.Cut(uri, "://")
	if !found {
		return uri
	}
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		rest = rest[at+1:]
	}
	return of + "://" + rest
}

// Redact implements [store.Driver].
func (registered) Redact(uri string) string {
	parts := split(uri)
	for i := range parts {
		parts[i] = redacted(parts[i])
	}
	return scheme + ":" + strings.Join(parts, ",")
}

// redacted is the URI of a server without its secrets.
func redacted(uri string) string {
	d, err := store.Lookup(uri)
	if err != nil || d.Name() == (registered{}).Name() {
		return "xxxxx"
	}
	return d.Redact(uri)
}

// Open implements [store.Driver].
func (registered) Open(ctx context.Context, c store.Config) (store.Store, error) {
	o, err := options(c)
	if err != nil {
		return nil, err
	}
	s, err := Open(ctx, o)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Obstructs implements [store.Driver]: a process does where it obstructs so many servers that too few are left.
func (registered) Obstructs(c store.Config, pid int) (bool, error) {
	parts := split(c.URI)
	left := len(parts)
	for i, uri := range parts {
		own, err := part(c, i, uri)
		if err != nil {
			return false, err
		}
		d, err := store.Lookup(own.URI)
		if err != nil {
			return false, err
		}
		if held, err := d.Obstructs(own, pid); err == nil && held {
			left--
		}
	}
	return left < quorum.Majority(len(parts)), nil
}

// Limits implements [store.Driver].
func (registered) Limits() store.Limits { return store.Limits{} }
