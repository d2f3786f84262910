package quorum

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/ballot"
	"github.com/shardctl/shardctl/pkg/store/internal/dbstore"
)

// DefaultTimeout bounds calls whose context has no deadline: about a sixth of the default lease.
const DefaultTimeout = 3 * time.Second

// Server is one of the servers of a quorum.
type Server struct {
	// Name distinguishes servers, for people and in the hash of the list: a URI without secrets.
	Name string
	// Open opens one client of it, within ctx. It is called again after an error.
	Open func(ctx context.Context) (driver.Store, error)
}

// Options say which servers make up a quorum.
type Options struct {
	// Servers are three or five, in an order that all clients share. Required.
	Servers []Server
	// Cluster keeps those apart who share servers. Default: default.
	Cluster string
	// Timeout bounds calls whose context has no deadline, and each request to a server. Give it a sixth of the lease's
	// duration. Default: DefaultTimeout.
	Timeout time.Duration
	// Existing writes nothing but what it is asked to: tombstones stay.
	Existing bool
	// Logger gets what no caller gets: servers that are away or do not count. Default: none.
	Logger logr.Logger
}

func (o Options) read() (Options, error) {
	if n := len(o.Servers); n != 3 && n != ballot.MaxServers {
		text := fmt.Sprintf("names %d servers, must be 3 or %d: %s:URI,URI,URI", n, ballot.MaxServers, scheme)
		return o, &driver.FieldError{Field: "uri", Text: text}
	}
	for i, s := range o.Servers {
		if slices.ContainsFunc(o.Servers[:i], func(t Server) bool { return t.Name == s.Name }) {
			return o, &driver.FieldError{Field: "uri", Text: "names " + s.Name + " twice, must be different servers"}
		}
	}
	var err error
	if o.Cluster, err = dbstore.Cluster(o.Cluster); err != nil {
		return o, err
	}
	if o.Timeout < 0 {
		return o, fmt.Errorf("%w: timeout: %s, want above 0", driver.ErrInvalid, o.Timeout)
	}
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	return o, nil
}

// members is the hash of the list of servers.
func (o Options) members() string {
	sum := sha256.New()
	for _, s := range o.Servers {
		fmt.Fprintf(sum, "%d %s\n", len(s.Name), s.Name)
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

// scheme begins URIs of quorums.
const scheme = "quorum"

// another begins where a comma is followed by a scheme.
var another = regexp.MustCompile(`,[a-z][a-z0-9+.-]*:`)

// split takes the URIs of servers out of quorum:URI,URI,URI. Commas within them stay: only one that is followed by a
// scheme and a colon divides.
func split(uri string) []string {
	_, rest, _ := strings.Cut(uri, ":")
	if rest == "" {
		return nil
	}
	var all []string
	begin := 0
	for _, at := range another.FindAllStringIndex(rest, -1) {
		all = append(all, rest[begin:at[0]])
		begin = at[0] + 1
	}
	return append(all, rest[begin:])
}

func init() { driver.Register(scheme, registered{}) }

// registered is what the registry knows of quorums. The stores that a quorum is made of register themselves.
type registered struct{}

// Name implements [driver.Driver].
func (registered) Name() string { return "quorum" }

// Form implements [driver.Driver].
func (registered) Form(of string) string { return of + ":URI,URI,URI" }

// Parse implements [driver.Driver].
func (registered) Parse(c driver.Config) (driver.Config, error) {
	if c.Database != "" {
		text := fmt.Sprintf("is %.80q, must be left out: the URI of each server names its own", c.Database)
		return c, &driver.FieldError{Field: "database", Text: text}
	}
	var err error
	if c.Cluster, err = dbstore.Cluster(c.Cluster); err != nil {
		return c, err
	}
	if !dbstore.ValidCluster(c.Cluster + suffix) {
		text := "is too long: a quorum adds " + suffix + " to it, and that must be at most 63 characters"
		return c, &driver.FieldError{Field: "cluster", Text: text}
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
func part(c driver.Config, i int, uri string) (driver.Config, error) {
	c.URI, c.Cluster = uri, c.Cluster+suffix
	d, err := driver.Lookup(uri)
	if err == nil && d.Name() == (registered{}).Name() {
		err = &driver.FieldError{Field: "uri", Text: "is a quorum, must be another store"}
	}
	if err == nil {
		c, err = d.Parse(c)
	}
	if err == nil {
		if why := driver.Forgets(c); why != "" {
			err = &driver.FieldError{Field: "uri", Text: "may forget what it acknowledged, and must not: " + why}
		}
	}
	if wrong, ok := errors.AsType[*driver.FieldError](err); ok {
		err = &driver.FieldError{Field: "uri", Text: fmt.Sprintf("server %d, %s, %s", i+1, redacted(uri), wrong.Text)}
	}
	return c, err
}

// Init implements [driver.Initializer], as the function [Init].
func (registered) Init(ctx context.Context, c driver.Config) (made bool, err error) {
	o, err := options(c)
	if err != nil {
		return false, err
	}
	return Init(ctx, o)
}

// options are those of a configuration.
func options(c driver.Config) (Options, error) {
	o := Options{Cluster: c.Cluster, Timeout: c.Timeout, Existing: c.Existing, Logger: c.Logger}
	parts := split(c.URI)
	for i, uri := range parts {
		own, err := part(c, i, uri)
		if err != nil {
			return o, err
		}
		own.Renew = renewPart(c.Renew, i, len(parts))
		o.Servers = append(o.Servers, Server{
			Name: place(uri),
			Open: func(ctx context.Context) (driver.Store, error) { return store.Open(ctx, own) },
		})
	}
	return o, nil
}

// renewPart renews the URI of one of n servers.
func renewPart(renew func() (string, error), i, n int) func() (string, error) {
	if renew == nil {
		return nil
	}
	return func() (string, error) {
		uri, err := renew()
		if err != nil {
			return "", err
		}
		parts := split(uri)
		if len(parts) != n {
			return "", fmt.Errorf("the renewed URI names %d servers, want %d as before", len(parts), n)
		}
		return parts[i], nil
	}
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

// Redact implements [driver.Driver].
func (registered) Redact(uri string) string {
	parts := split(uri)
	for i := range parts {
		parts[i] = redacted(parts[i])
	}
	return scheme + ":" + strings.Join(parts, ",")
}

// redacted is the URI of a server without its secrets.
func redacted(uri string) string {
	d, err := driver.Lookup(uri)
	if err != nil || d.Name() == (registered{}).Name() {
		return "xxxxx"
	}
	return d.Redact(uri)
}

// Open implements [driver.Driver].
func (registered) Open(ctx context.Context, c driver.Config) (driver.Store, error) {
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

// BlocksWriters is for [driver.BlocksWriters]: a process does where it blocks so many servers that too few are left.
func (registered) BlocksWriters(c driver.Config, pid int) (bool, error) {
	parts := split(c.URI)
	left := len(parts)
	for i, uri := range parts {
		own, err := part(c, i, uri)
		if err != nil {
			return false, err
		}
		if blocks, err := driver.BlocksWriters(own, pid); err == nil && blocks {
			left--
		}
	}
	return left < ballot.Majority(len(parts)), nil
}
