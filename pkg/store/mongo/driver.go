package mongo

import (
	"cmp"
	"context"
	"regexp"

	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/connstring"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/internal/storeuri"
)

// Schemes of a store's URI.
const (
	scheme    = "mongodb"
	schemeSRV = "mongodb+srv"
)

func init() {
	store.Register(scheme, registered{})
	store.Register(schemeSRV, registered{})
}

// registered is what the registry knows of MongoDB.
type registered struct{}

// Name implements [store.Driver].
func (registered) Name() string { return "mongodb" }

// Form implements [store.Driver].
func (registered) Form(of string) string {
	if of == schemeSRV {
		return of + "://HOST"
	}
	return of + "://HOST…"
}

var databaseName = regexp.MustCompile(`^[^/\\. "$*<>:|?\x00]{1,63}$`)

// Parse implements [store.Driver]. Its errors never quote the URI: it may hold a password, also where it is wrong.
func (registered) Parse(c store.Config) (store.Config, error) {
	c.Cluster = cmp.Or(c.Cluster, DefaultCluster)
	if wrong := checkURI(c.URI); wrong != "" {
		return c, &store.FieldError{Field: "uri", Text: wrong}
	}
	field := "database"
	if c.Database == "" {
		c.Database, field = cmp.Or(databaseOf(c.URI), DefaultDatabase), "uri"
	}
	if !databaseName.MatchString(c.Database) {
		return c, &store.FieldError{
			Field: field,
			Text:  `names a wrong database, must be at most 63 characters without / \ . " $ * < > : | ? and blanks`,
		}
	}
	if !clusterName.MatchString(c.Cluster) {
		return c, &store.FieldError{Field: "cluster", Text: "must be 1 to 63 letters, digits, _ or -"}
	}
	if isSRV(c.URI) {
		return c, nil // its options come from the DNS as well: Open looks at them
	}
	if _, err := connstring.ParseAndValidate(c.URI); err != nil {
		return c, &store.FieldError{
			Field: "uri", Text: "is refused by MongoDB's driver: " +
				storeuri.Scrub(err.Error(), secretParams.Of(c.URI)),
		}
	}
	return c, nil
}

// Redact implements [store.Driver].
func (registered) Redact(uri string) string { return Redact(uri) }

// Open implements [store.Driver].
func (registered) Open(ctx context.Context, c store.Config) (store.Store, error) {
	return Open(ctx, Options{
		URI: c.URI, Database: c.Database, Cluster: c.Cluster, OperationTimeout: c.Timeout, Existing: c.Existing,
		Logger: c.Logger,
	})
}

// Obstructs implements [store.Driver]: no client holds up a server.
func (registered) Obstructs(store.Config, int) (bool, error) { return false, nil }

// Limits implements [store.Driver].
func (registered) Limits() store.Limits { return store.Limits{} }
