package mongo

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/mongo"
	mongodriver "go.mongodb.org/mongo-driver/v2/x/mongo/driver"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/auth"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/topology"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/dbstore"
)

const codeUnauthorized = 13

// causes are what another try with the same URI and set-up does not change. The driver and the server say in many
// lines who may not log in, may not do something, or is not trusted.
func causes(secrets func() []string) *dbstore.Causes {
	// UserNotFound, AuthenticationFailed, MechanismUnavailable, AtlasError
	refused := []int{codeUnauthorized, 11, 18, 334, 8000}
	return &dbstore.Causes{Secrets: secrets, Table: []dbstore.Cause{
		{
			Match:  logInFailed,
			Advice: "the log-in failed: wrong user or password, or a user of another database (authSource in the URI)",
		},
		{
			Match:  distrusted,
			Advice: "the server's certificate is not trusted (tlsCAFile in the URI names whom to trust)",
		},
		{Match: missingPrivilege},
		{Match: func(err error) (string, bool) { return err.Error(), hasCode(err, refused...) }},
		{
			Match: closedAtOnce, Means: driver.ErrUnavailable,
			Advice: "the server closes each connection before it answers: it wants TLS, or a certificate of the " +
				"client that it knows (tls and tlsCertificateKeyFile in the URI)",
		},
	}}
}

// hasCode says whether the server's answer holds one of these codes.
func hasCode(err error, codes ...int) bool {
	var server mongo.ServerError
	if errors.As(err, &server) && slices.ContainsFunc(codes, server.HasErrorCode) {
		return true
	}
	var made mongodriver.WriteCommandError // of a collection or an index that was made, and no majority had it in time
	if errors.As(err, &made) && made.WriteConcernError != nil &&
		slices.Contains(codes, int(made.WriteConcernError.Code)) {
		return true
	}
	var raw mongodriver.Error // of a handshake
	return errors.As(err, &raw) && slices.Contains(codes, int(raw.Code))
}

// logInFailed is about a wrong user or password, or a certificate whose name no user has. A failed log-in comes out of
// the driver as a failed connection: an error of its own, unless the connection broke during it, or only as text, when
// another connection failed first and took the pool, or the server, with it.
func logInFailed(err error) (text string, is bool) {
	text = err.Error()
	says := strings.Contains(text, "(AuthenticationFailed)") || strings.Contains(text, "(UserNotFound)")
	if one, failed := errors.AsType[*auth.Error](err); failed {
		var broken net.Error
		return one.Error(), !errors.As(err, &broken) && !errors.Is(err, io.EOF) && !mongo.IsNetworkError(err) &&
			!mongo.IsTimeout(err)
	}
	var cleared mongodriver.RetryablePoolError
	var selection topology.ServerSelectionError
	if errors.As(err, &cleared) || errors.As(err, &selection) || hasCode(err, 11, 18) {
		return "the server says so", says
	}
	return text, false
}

// distrusted is about a certificate that is not trusted, where that holds of every server that was tried. A set of
// which one server alone has a wrong certificate can be reached without it.
func distrusted(err error) (text string, is bool) {
	all := lastErrors(err)
	if len(all) == 0 {
		all = []error{err}
	}
	for _, one := range all {
		verification, is := errors.AsType[*tls.CertificateVerificationError](one)
		if !is {
			return "", false
		}
		text = verification.Error()
	}
	return text, true
}

// closedAtOnce is about a mongod that closes the connection of a client whose certificate it does not take, or of one
// that speaks without TLS, and says nothing.
func closedAtOnce(err error) (text string, is bool) {
	for _, one := range lastErrors(err) {
		if !errors.Is(one, io.EOF) && !strings.Contains(one.Error(), io.EOF.Error()) {
			return "", false
		}
		text = one.Error()
	}
	return text, text != ""
}

// lastErrors are those of the servers of a selection that found none.
func lastErrors(err error) (all []error) {
	selection, _ := errors.AsType[topology.ServerSelectionError](err)
	for _, server := range selection.Desc.Servers {
		if server.LastError != nil {
			all = append(all, server.LastError)
		}
	}
	return all
}

// refusedCommand finds what was refused in the server's words, which go on with all of the command, documents included.
var refusedCommand = regexp.MustCompile(`not authorized on (\S+) to execute command \{ (\w+): (?:"([^"]*)"|1)`)

// actionOf is the action that a command on a collection needs, where its name is another.
var actionOf = map[string]string{
	"delete": actionRemove, "create": "createCollection or " + actionInsert, "createIndexes": actionCreateIndex,
	"aggregate": actionFind, "getMore": actionFind,
}

// missingPrivilege says in one line which privilege was missing.
func missingPrivilege(err error) (text string, is bool) {
	if err == nil {
		return "", false
	}
	found := refusedCommand.FindStringSubmatch(err.Error())
	if !hasCode(err, codeUnauthorized) || found == nil {
		return err.Error(), false
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
	return fmt.Sprintf("the user lacks the privilege %s on %s", action, on), true
}
