package mongo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/auth"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/topology"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/internal/storeuri"
)

// Codes of MongoDB's errors, by what they mean to callers.
var (
	// Trying again with the same URI and set-up does not help.
	invalidCodes = []int{
		11,   // UserNotFound
		13,   // Unauthorized
		18,   // AuthenticationFailed
		334,  // MechanismUnavailable
		8000, // AtlasError: bad credentials
	}
	// The server could not do it now: elections, shutdowns, time-outs, write concerns that were not reached, what an
	// operator has ended.
	unavailableCodes = []int{
		6, 7, 89, // HostUnreachable, HostNotFound, NetworkTimeout
		50, 262, 202, // MaxTimeMSExpired, ExceededTimeLimit, NetworkInterfaceExceededTimeLimit
		11601, 43, 175, 237, // Interrupted (killOp), CursorNotFound, QueryPlanKilled, CursorKilled
		24, 46, 112, // LockTimeout, LockBusy, WriteConflict
		12586, 12587, // an index is being built
		63, 150, 13388, // StaleShardVersion, StaleEpoch, StaleConfig
		14031,       // OutOfDiskSpace
		64, 79, 100, // WriteConcernFailed, UnknownReplWriteConcern, UnsatisfiableWriteConcern
		91, 11600, 11602, // shutting down, or interrupted by a change of role
		133, 134, // no server fits, no majority read yet
		189, 10107, 13435, 13436, // stepped down, not primary, recovering
		9001, // SocketException
	}
)

// translate makes an error of the driver one of package elect's, once, where it comes in. what says what was tried.
func (a *access) translate(what string, err error) error {
	if err == nil {
		return nil
	}
	shown := a.hide(describeError(err)) // by its text only, when that held a secret: err has said what it is
	switch {
	case errors.Is(shown, store.ErrInvalid), errors.Is(shown, store.ErrSchema): // found out by this package
		return fmt.Errorf("%s: %w", what, shown)
	case errors.Is(err, store.ErrSchema):
		return fmt.Errorf("%s: %w: %w", what, store.ErrSchema, shown)
	case errors.Is(err, store.ErrInvalid), isInvalid(err):
		return fmt.Errorf("%s: %w: %w", what, store.ErrInvalid, shown)
	case isUnavailable(err):
		return fmt.Errorf("%s: %w: %w", what, store.ErrUnavailable, shown)
	}
	return fmt.Errorf("%s: %w", what, shown)
}

func isInvalid(err error) bool {
	if hasCode(err, invalidCodes) {
		return true
	}
	if _, is := distrust(err); is {
		return true
	}
	// A failed log-in comes out of the driver as a failed connection: an error of its own, unless the connection broke
	// during it,
	if _, failed := errors.AsType[*auth.Error](err); failed {
		var broken net.Error
		return !errors.As(err, &broken) && !errors.Is(err, io.EOF) && !mongo.IsNetworkError(err) &&
			!mongo.IsTimeout(err)
	}
	// or only as text, when another connection failed first and took the pool, or the server, with it.
	var cleared driver.RetryablePoolError
	var selection topology.ServerSelectionError
	return (errors.As(err, &cleared) || errors.As(err, &selection)) && saysLogInFailed(err)
}

// saysLogInFailed looks for the driver's text of the server's answer to a wrong user or password, or to a certificate
// whose name no user has.
func saysLogInFailed(err error) bool {
	text := err.Error()
	return strings.Contains(text, "(AuthenticationFailed)") || strings.Contains(text, "(UserNotFound)")
}

func isUnavailable(err error) bool {
	var connection topology.ConnectionError
	var selection topology.ServerSelectionError
	var pool topology.PoolError
	var cleared driver.RetryablePoolError
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded),
		errors.Is(err, mongo.ErrClientDisconnected):
		return true
	case mongo.IsTimeout(err), mongo.IsNetworkError(err):
		return true
	case errors.As(err, &connection), errors.As(err, &selection), errors.As(err, &pool), errors.As(err, &cleared):
		return true
	}
	var labeled mongo.LabeledError
	if errors.As(err, &labeled) &&
		(labeled.HasErrorLabel("RetryableWriteError") || labeled.HasErrorLabel("TransientTransactionError")) {
		return true
	}
	return hasCode(err, unavailableCodes)
}

// hasCode says whether the server's answer holds one of these codes.
func hasCode(err error, codes []int) bool {
	var server mongo.ServerError
	if errors.As(err, &server) && slices.ContainsFunc(codes, server.HasErrorCode) {
		return true
	}
	var made driver.WriteCommandError // of a collection or an index that was made, and no majority had it in time
	if errors.As(err, &made) && made.WriteConcernError != nil &&
		slices.Contains(codes, int(made.WriteConcernError.Code)) {
		return true
	}
	var raw driver.Error // of a handshake
	return errors.As(err, &raw) && slices.Contains(codes, int(raw.Code))
}

// hide keeps secrets of the URI out of an error's text; the driver has no reason to put them there.
func (a *access) hide(err error) error {
	text := err.Error()
	if clean := storeuri.Scrub(text, a.secrets); clean != text {
		return errors.New(clean)
	}
	return err
}
