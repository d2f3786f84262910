package mongo

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/pkg/store"
)

// Defaults of [Options].
const (
	DefaultDatabase         = "shardctl"
	DefaultCluster          = "default"
	DefaultOperationTimeout = 3 * time.Second // about a sixth of the default lease
)

// Options say which database to use, and how.
type Options struct {
	// URI is the connection string, mongodb://… or mongodb+srv://…. Required. Write concern, read concern, read
	// preference and retries in it are overridden: the protocol needs its own.
	URI string
	// Database holds the collections. Default: the URI's, else DefaultDatabase.
	Database string
	// Cluster names the collections, so that several clusters can share one database: letters, digits, _ and -, at
	// most 63. Default: DefaultCluster.
	Cluster string
	// OperationTimeout bounds calls whose context has no deadline, and the search for a primary in any of them. Give it
	// a sixth of the lease's duration. Default: DefaultOperationTimeout.
	OperationTimeout time.Duration
	// Existing opens a store that was set up before, for a few calls: nothing is made, the privilege find is enough to
	// open it, and no more connections are kept than are used.
	// Changes are left to the server to refuse.
	Existing bool
	// Logger gets broken watches and unreadable documents. Default: none.
	Logger logr.Logger
}

// Reasons of problems.
const (
	ReasonStandalone = "StoreStandalone" // no replica set: polling, and no second copy of the data
	ReasonArbiter    = "StoreArbiter"    // a member without data: one lost node may stop all writes
	ReasonSharding   = "StoreSharding"   // it could not be checked how the documents are sharded
	ReasonNotDurable = "StoreNotDurable" // a crash of a majority may lose what was read
)

var (
	clusterName  = regexp.MustCompile(`^[A-Za-z0-9_-]{1,63}$`)
	badInDBNames = `/\. "$*<>:|?` + "\x00"
)

// withDefaults fills in what was left out, except the database, which the URI may name.
func (o Options) withDefaults() Options {
	if o.Cluster == "" {
		o.Cluster = DefaultCluster
	}
	if o.OperationTimeout == 0 {
		o.OperationTimeout = DefaultOperationTimeout
	}
	return o
}

// validate returns all that is wrong with the options; the error wraps [store.ErrInvalid].
func (o Options) validate() error {
	var all []error
	if o.URI == "" {
		all = append(all, errors.New("URI: empty, want mongodb://HOST… or mongodb+srv://HOST…"))
	}
	if !clusterName.MatchString(o.Cluster) {
		all = append(all, fmt.Errorf("cluster: %q, want 1 to 63 letters, digits, _ or -", o.Cluster))
	}
	if len(o.Database) > 63 || strings.ContainsAny(o.Database, badInDBNames) {
		all = append(all, fmt.Errorf("database: %q, want at most 63 bytes and none of %q", o.Database, badInDBNames))
	}
	if o.OperationTimeout < 0 {
		all = append(all, fmt.Errorf("operation timeout: %s, want above 0", o.OperationTimeout))
	}
	if err := errors.Join(all...); err != nil {
		return fmt.Errorf("%w: %w", store.ErrInvalid, err)
	}
	return nil
}
