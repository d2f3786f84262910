package mongo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/shardctl/shardctl/pkg/store/driver"
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
	for _, info := range driver.Table() {
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
	if err := s.clients().client.Database("admin").RunCommand(ctx, command).Decode(&l); err != nil {
		var answer mongo.ServerError
		if s.causes.Lasting(err) || !errors.As(err, &answer) {
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
		"%w: user %s of database %s lacks privileges: %s", driver.ErrInvalid, user.User, user.DB,
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
func (s *setup) resource(collection string) string {
	if collection == "" {
		return "database " + s.database
	}
	return s.database + "." + collection
}
