package mongo

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"go.mongodb.org/mongo-driver/v2/mongo"
)

const codeUnauthorized = 13

// refusedCommand finds what was refused in the server's words, which go on with all of the command, documents included.
var refusedCommand = regexp.MustCompile(`not authorized on (\S+) to execute command \{ (\w+): (?:"([^"]*)"|1)`)

// actionOf is the action that a command on a collection needs, where its name is another.
var actionOf = map[string]string{
	"delete": actionRemove, "create": "createCollection or " + actionInsert, "createIndexes": actionCreateIndex,
	"aggregate": actionFind, "getMore": actionFind,
}

// plainly says in a few words what the driver and the server say in many: who may not log in, may not do something, or
// is not trusted.
func plainly(err error) error {
	if isInvalid(err) && saysLogInFailed(err) {
		return errors.New(
			"the log-in failed: wrong user or password, or a user of another database (authSource in the URI)",
		)
	}
	return nameRight(nameTrust(err))
}

// nameRight says in one line which privilege was missing, should err be a refusal for the lack of one.
func nameRight(err error) error {
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
