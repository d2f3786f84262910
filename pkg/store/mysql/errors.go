package mysql

import (
	"errors"
	"fmt"
	"slices"

	"github.com/go-sql-driver/mysql"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/storeuri"
)

// Numbers of errors, by the names of the server's source (MariaDB's and MySQL's manuals, "Error Codes").
const (
	erDBAccessDenied       = 1044
	erAccessDenied         = 1045
	erNoDB                 = 1046
	erBadDB                = 1049
	erTooLongKey           = 1071
	erHostNotPrivileged    = 1130
	erTableAccessDenied    = 1142
	erColumnAccessDenied   = 1143
	erNoSuchTable          = 1146
	erTooManyConnections   = 1040
	erCheckRead            = 1020
	erLockWaitTimeout      = 1205
	erLockDeadlock         = 1213
	erSpecificAccessDenied = 1227
	erUnknownEngine        = 1286
	erOptionPrevents       = 1290 // --read-only and others
	erStatementFormat      = 1665
	erNoPassword           = 1698
	erReadOnlyTransaction  = 1792
	erMustChangePassword   = 1820
	erReadOnlyMode         = 1836
	erPasswordExpired      = 1862
	erAccountLocked        = 3118
	erAccountLockedMariaDB = 4151
	erShutdown             = 1053
	erUnknown              = 1105
	erDuringCommit         = 1180
	erInterrupted          = 1317
	erConnectionKilled     = 1927
)

var (
	errReadOnly = errors.New("the server is read-only: wait for the end of its fail-over, or name the primary")
	errSetUp    = errors.New("another client is setting up the tables")
)

// advice says what to do about an error that trying again does not mend.
var advice = map[uint16]string{
	erAccessDenied:         "check user and password",
	erNoPassword:           "identify the user by a password, not by unix_socket",
	erHostNotPrivileged:    "allow the user to connect from this host",
	erMustChangePassword:   "change the user's password",
	erPasswordExpired:      "change the user's password",
	erAccountLocked:        "unlock the account",
	erAccountLockedMariaDB: "unlock the account",
	erBadDB:                "create the database, or name another in the URI",
	erDBAccessDenied:       "grant the user the rights on this database that docs/stores/mysql.md lists",
	erTableAccessDenied:    "grant the user the rights on this database that docs/stores/mysql.md lists",
	erColumnAccessDenied:   "grant the user the rights on this database that docs/stores/mysql.md lists",
	erSpecificAccessDenied: "grant the user the rights on this database that docs/stores/mysql.md lists",
	erTooLongKey:           "use a server with innodb_page_size of 16 KiB or more",
	erUnknownEngine:        "use a server with InnoDB",
	erStatementFormat:      "set binlog_format to ROW or MIXED",
}

func number(err error) uint16 {
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return e.Number
	}
	return 0
}

// explain adds what to do.
func explain(err error) error {
	if err == nil {
		return nil
	}
	switch n := number(err); {
	case advice[n] != "":
		return fmt.Errorf("%s: %w", advice[n], err)
	case n == erTooManyConnections:
		return fmt.Errorf("raise max_connections: each replica uses up to %d, and its guard one: %w", MaxConnections,
			err)
	case errors.Is(err, errReadOnly):
		return err
	case readOnly(err):
		return fmt.Errorf("%w (%w)", errReadOnly, err)
	case isPlugin(err):
		return fmt.Errorf("identify the user by mysql_native_password, ed25519 or caching_sha2_password: %w", err)
	case errors.Is(err, mysql.ErrNoTLS):
		return fmt.Errorf("set up TLS on the server, or leave tls out of the URI: %w", err)
	case storeuri.Untrusted(err):
		return fmt.Errorf("name the authority of the server's certificate with tlsCAFile: %w", err)
	}
	return err
}

// readOnly says whether the server takes no writes, as one does that is no primary any more.
func readOnly(err error) bool {
	return errors.Is(err, errReadOnly) ||
		slices.Contains([]uint16{erOptionPrevents, erReadOnlyTransaction, erReadOnlyMode}, number(err))
}

// gone says that a table or the database is missing: what is there later may be another store.
func gone(err error) bool {
	return slices.Contains([]uint16{erNoDB, erBadDB, erNoSuchTable}, number(err))
}

// Busy implements [sqlstore.Dialect]. A deadlock is also how Galera says at COMMIT that another node was faster. All
// that the transaction had done is rolled back then.
func (dialect) Busy(err error) bool {
	return errors.Is(err, errSetUp) ||
		slices.Contains([]uint16{erLockDeadlock, erLockWaitTimeout, erCheckRead}, number(err))
}

// Answered implements [sqlstore.Dialect]. Whoever ends a statement or a session may end a COMMIT that was done.
func (dialect) Answered(err error) bool {
	n := number(err)
	return n != 0 && !readOnly(err) &&
		!slices.Contains([]uint16{erShutdown, erUnknown, erDuringCommit, erInterrupted, erConnectionKilled}, n)
}

// NoteFailed implements [sqlstore.Server]. The server does not say which statement has failed.
func (s *server) NoteFailed(err error) bool { return s.Answered(err) && !s.Busy(err) }

// Classify implements [sqlstore.Dialect]. A shutdown, a connection that was killed, too many of them, or a server that
// is read-only may pass. So may what is not listed, and trying again does no harm.
func (dialect) Classify(err error) error {
	if _, ok := advice[number(err)]; ok {
		return driver.ErrInvalid
	}
	if errors.Is(err, driver.ErrInvalid) || storeuri.Untrusted(err) || isPlugin(err) || errors.Is(err, mysql.ErrNoTLS) ||
		errors.Is(err, mysql.ErrOldProtocol) {
		return driver.ErrInvalid
	}
	return driver.ErrUnavailable
}

// isPlugin says whether the user's password is checked in a way that the driver does not take part in.
func isPlugin(err error) bool {
	return errors.Is(err, mysql.ErrUnknownPlugin) || errors.Is(err, mysql.ErrOldPassword) ||
		errors.Is(err, mysql.ErrCleartextPassword) || errors.Is(err, mysql.ErrNativePassword)
}
