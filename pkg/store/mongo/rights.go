package mongo

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/shardctl/shardctl/pkg/store"
)

// Actions of MongoDB's privileges that are used.
const (
	actionFind            = "find"
	actionInsert          = "insert"
	actionUpdate          = "update"
	actionRemove          = "remove"
	actionChangeStream    = "changeStream"
	actionListCollections = "listCollections"
	actionListIndexes     = "listIndexes"
	actionCreateIndex     = "createIndex" // only where an index is missing
	actionAny             = "anyAction"
)

// A right is actions on a collection, or on all of the database when collection is "".
type right struct {
	collection string
	actions    []string
}

// rights are those that the store cannot do without once collections and indexes are there. Documents of each kind are
// created, replaced and read. Deleted are only those of sessions and members an hour after their end, old events, and
// what operators take back.
func (s *setup) rights() []right {
	database := []string{actionListCollections, actionListIndexes}
	if !s.standalone {
		database = append(database, actionFind, actionChangeStream) // a stream of the database is granted for all of it
	}
	all := []right{{actions: database}, {s.schemaName(), []string{actionFind}}}
	for _, info := range store.Table() {
		actions := []string{actionFind, actionInsert, actionUpdate}
		if info.Retention > 0 {
			actions = append(actions, actionRemove)
		}
		all = append(all, right{collectionName(s.cluster, info.Kind), actions})
	}
	return all
}

// login is who the server takes us for, and what that one may do.
type login struct {
	Auth struct {
		Users []struct {
			User string `bson:"user"`
			DB   string `bson:"db"`
		} `bson:"authenticatedUsers"`
		Privileges []struct {
			Resource struct {
				Any        bool    `bson:"anyResource"`
				DB         *string `bson:"db"` // nil: not about collections
				Collection string  `bson:"collection"`
			} `bson:"resource"`
			Actions []string `bson:"actions"`
		} `bson:"authenticatedUserPrivileges"`
	} `bson:"authInfo"`
}

// checkRights refuses a user who lacks any of the rights, naming all that are missing. Found out one by one they would
// end runs, or leave old documents behind, long after the start. A server that does not say, or asks for no log-in, is
// believed to allow all.
func (s *setup) checkRights(ctx context.Context) error {
	var l login
	command := bson.D{{Key: "connectionStatus", Value: 1}, {Key: "showPrivileges", Value: true}}
	if err := s.client.Database("admin").RunCommand(ctx, command).Decode(&l); err != nil {
		if isUnavailable(err) || isInvalid(err) {
			return fmt.Errorf("log in: %w", err)
		}
		s.log.V(1).Info("The server does not say what this user may do", "error", err.Error())
		return nil
	}
	if len(l.Auth.Users) == 0 {
		return nil
	}
	var missing []string
	for _, r := range s.rights() {
		if lacks := l.lacks(s.database, r); len(lacks) > 0 {
			missing = append(missing, strings.Join(lacks, ", ")+" on "+s.resource(r.collection))
		}
	}
	if len(missing) == 0 {
		return nil
	}
	user := l.Auth.Users[0]
	return fmt.Errorf(
		"%w: user %s of database %s lacks privileges: %s", store.ErrInvalid, user.User, user.DB,
		strings.Join(missing, "; "),
	)
}

// lacks lists the actions of a right that no privilege grants.
func (l *login) lacks(database string, r right) []string {
	return slices.DeleteFunc(slices.Clone(r.actions), func(action string) bool {
		for _, p := range l.Auth.Privileges {
			if !slices.Contains(p.Actions, action) && !slices.Contains(p.Actions, actionAny) {
				continue
			}
			on := p.Resource
			if on.Any {
				return true
			}
			// "" stands for all databases, and for all collections that are not the system's.
			if on.DB != nil && (*on.DB == "" || *on.DB == database) &&
				(on.Collection == "" || on.Collection == r.collection) {
				return true
			}
		}
		return false
	})
}

// resource is how errors name a collection, or the database.
func (a *access) resource(collection string) string {
	if collection == "" {
		return "database " + a.database
	}
	return a.database + "." + collection
}

const codeUnauthorized = 13

// refusedCommand finds what was refused in the server's words, which go on with all of the command, documents included.
var refusedCommand = regexp.MustCompile(`not authorized on (\S+) to execute command \{ (\w+): (?:"([^"]*)"|1)`)

// actionOf is the action that a command on a collection needs, where its name is another.
var actionOf = map[string]string{
	"delete": actionRemove, "create": "createCollection or " + actionInsert, "createIndexes": actionCreateIndex,
	"aggregate": actionFind, "getMore": actionFind,
}

// describeError says in a few words what the driver and the server say in many: who may not log in, may not do something, or
// is not trusted.
func describeError(err error) error {
	if isInvalid(err) && saysLogInFailed(err) {
		return errors.New(
			"the log-in failed: wrong user or password, or a user of another database (authSource in the URI)",
		)
	}
	return describeMissingPrivilege(describeTLSFailure(err))
}

// describeMissingPrivilege says in one line which privilege was missing, should err be a refusal for the lack of one.
func describeMissingPrivilege(err error) error {
	var server mongo.ServerError
	if !errors.As(err, &server) || !server.HasErrorCode(codeUnauthorized) {
		return err
	}
	found := refusedCommand.FindStringSubmatch(err.Error())
	if found == nil {
		return err
	}
	database, command, collection := found[1], found[2], found[3]
	action, known := actionOf[command]
	switch {
	case command == "aggregate" && collection == "": // of the whole database
		action = actionFind + " and " + actionChangeStream
	case command == "update" && strings.HasSuffix(collection, ".groups"): // the one that is upserted
		action = actionUpdate + " and " + actionInsert
	case !known:
		action = command
	}
	on := "database " + database
	if collection != "" {
		on = database + "." + collection
	}
	return fmt.Errorf("the user lacks the privilege %s on %s", action, on)
}
