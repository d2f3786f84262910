package redis

import (
	"github.com/shardctl/shardctl/pkg/store/internal/dbstore"
)

// causes are answers of a server that another try does not change. secrets are kept out of texts.
func causes(secrets func() []string) *dbstore.Causes {
	const (
		rights  = "the user lacks rights: grant those in docs/stores/redis.md"
		command = "this service lacks a command that the store needs"
	)
	return &dbstore.Causes{Secrets: secrets, Table: append([]dbstore.Cause{
		{Says: "WRONGPASS", Advice: "wrong user or password: correct the URI"},
		{Says: "NOAUTH", Advice: "a password is required: write it into the URI"},
		{
			Says:   "without any password configured",
			Advice: "the server has no password, and the URI has one: take it out",
		},
		{Says: "NOPERM", Advice: rights},
		{Says: "The user executing the script", Advice: rights},
		{Says: "ACL failure in script", Advice: rights},
		{Says: "DB index is out of range", Advice: "there is no database of this number: name another one"},
		{
			Says:   "SELECT is not allowed in cluster mode",
			Advice: "a Redis cluster has database 0 only: use redis+cluster://",
		},
		{Says: "This instance has cluster support disabled", Advice: "the server is no cluster: use redis://"},
		{
			Says:   "WRONGTYPE",
			Advice: "a key below shardctl: is of another type: somebody wrote it by hand; rename or delete it",
		},
		{Says: "unknown command", Advice: command},
		{Says: "Unknown Redis command", Advice: command},
	}, dbstore.TLS()...)}
}
