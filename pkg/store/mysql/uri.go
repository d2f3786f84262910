package mysql

import (
	"cmp"
	"crypto/tls"
	"regexp"
	"time"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/internal/storeuri"
)

// Scheme of a store's URI: mysql://[USER[:PASSWORD]@]HOST[:PORT]/DATABASE.
const Scheme = "mysql"

// DefaultDatabase is the database of a URI that names none.
const DefaultDatabase = "shardctl"

const (
	defaultPort = 3306
	paramPoll   = "pollMillis"
	// Bounds of paramPoll.
	minPoll, maxPoll = 5 * time.Millisecond, time.Minute
)

var syntax = storeuri.Syntax{DefaultPort: defaultPort, OneHost: true, Params: []string{paramPoll}, TLS: true}

var secrets storeuri.Secrets // none but the password

// Redact is a URI without its password. It takes wrong URIs as well, and then rather hides too much.
func Redact(uri string) string { return secrets.Redact(uri) }

// target is what a URI says.
type target struct {
	user, password, addr, database string
	poll                           time.Duration // 0: not said
	files                          storeuri.TLSFiles
}

var databaseName = regexp.MustCompile("^[^`/\\\\.\\x00-\\x1f]{1,64}$")

// parse reads a URI. database has precedence over the one that it names. Errors are a [store.FieldError].
func parse(uri, database string) (target, error) {
	u, err := syntax.Parse(uri)
	if err != nil {
		return target{}, err
	}
	field := "database"
	if database == "" {
		database, field = cmp.Or(u.Path, DefaultDatabase), "uri"
	}
	if !databaseName.MatchString(database) {
		return target{}, &store.FieldError{
			Field: field, Text: "names a wrong database, must be at most 64 characters without / \\ . and `",
		}
	}
	if u.User == "" {
		return target{}, &store.FieldError{Field: "uri", Text: "names no user, must be mysql://USER@HOST/DATABASE"}
	}
	poll, err := u.Whole(paramPoll, 0, int(minPoll.Milliseconds()), int(maxPoll.Milliseconds()))
	if err != nil {
		return target{}, err
	}
	files, err := u.TLS(false)
	return target{
		user: u.User, password: u.Password, addr: u.Hosts[0], database: database,
		poll: time.Duration(poll) * time.Millisecond, files: files,
	}, err
}

// tls is the configuration of TLS; nil: none.
func (t target) tls() (*tls.Config, error) { return t.files.Config() }
