package quorum

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/internal/engine"
	"github.com/shardctl/shardctl/pkg/store/internal/quorum"
)

// DefaultTimeout bounds calls whose context has no deadline: about a sixth of the default lease.
const DefaultTimeout = 3 * time.Second

// Server is one of the servers of a quorum.
type Server struct {
	// Name tells servers apart, for people and in the hash of the list: a URI without secrets.
	Name string
	// Open opens one client of it, within ctx. It is called again after an error.
	Open func(ctx context.Context) (store.Store, error)
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
	if n := len(o.Servers); n != 3 && n != quorum.MaxServers {
		text := fmt.Sprintf("names %d servers, must be 3 or %d: %s:URI,URI,URI", n, quorum.MaxServers, scheme)
		return o, &store.FieldError{Field: "uri", Text: text}
	}
	for i, s := range o.Servers {
		if slices.ContainsFunc(o.Servers[:i], func(t Server) bool { return t.Name == s.Name }) {
			return o, &store.FieldError{Field: "uri", Text: "names " + s.Name + " twice, must be different servers"}
		}
	}
	var err error
	if o.Cluster, err = engine.Cluster(o.Cluster); err != nil {
		return o, err
	}
	if o.Timeout < 0 {
		return o, fmt.Errorf("%w: timeout: %s, want above 0", store.ErrInvalid, o.Timeout)
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
