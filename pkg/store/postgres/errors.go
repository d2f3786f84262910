package postgres

import (
	"cmp"
	"errors"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/storeuri"
)

// Codes of PostgreSQL's errors (Appendix A of its manual), by what they mean to callers.
const (
	serializationFailure = "40001"
	deadlockDetected     = "40P01"
	noSuchStatement      = "26000" // prepared on another connection
	statementThere       = "42P05"
	readOnlyTransaction  = "25006"
	lockNotAvailable     = "55P03" // within lock_timeout
	noPrivilege          = "42501"
	noFunction           = "42883"
	notSupported         = "0A000"
	noDatabase           = "3D000"
	noSchema             = "3F000"
	noTable              = "42P01"
	noSuchCharacter      = "22P05"
	noNumber             = "22P02"
	tooManyConnections   = "53300"
	classAuthorization   = "28"
	classResources       = "53" // too many connections, for one
)

// advice say what to do about what trying again does not mend, by code or class.
var advice = map[string]string{
	noPrivilege:        "grant the user what docs/stores/postgresql.md lists, or set the tables up as another user",
	noDatabase:         "create the database, or name another one",
	noSchema:           "create a schema that search_path names, and grant USAGE and CREATE on it",
	classAuthorization: "check the user, the password, and pg_hba.conf",
}

func codeOf(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}

// passing says what to do about what may pass, by code.
var passing = map[string]string{
	tooManyConnections: "raise max_connections: each replica uses up to six",
	lockNotAvailable:   "another transaction has the table or the row: see pg_locks and pg_stat_activity",
	noSuchCharacter: "the encoding of the database lacks a character of a name or a text: use ASCII, or move to a database " +
		"with ENCODING 'UTF8' (shardctl store copy)",
	noTable: "search_path leads to another schema, or a table was dropped: mend that, or drop all tables of the cluster " +
		"and restart the replicas",
}

func adviceOn(code string) string {
	if h := advice[code]; h != "" {
		return h
	}
	if len(code) == 5 {
		return advice[code[:2]]
	}
	return ""
}

// Busy implements [sqlstore.Dialect]: PostgreSQL has rolled back, or has not begun.
func (d dialect) Busy(err error) bool {
	switch codeOf(err) {
	case serializationFailure, deadlockDetected, lockNotAvailable:
		return true
	case noSuchStatement, statementThere:
		d.pooled.Store(true)
		return true
	}
	return false
}

// Answered implements [sqlstore.Dialect]. A server that ends the session may have committed, and one that takes no
// writes has answered nothing about them.
func (dialect) Answered(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && e.SeverityUnlocalized == "ERROR" && !deposed(err)
}

// NoteFailed implements [sqlstore.Server]. The server says in which function an error came up. Who waited for the log
// in vain goes on without it, and who was chosen to end a deadlock tries again.
func (s *server) NoteFailed(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && s.Answered(err) && e.Code != serializationFailure && e.Code != deadlockDetected &&
		strings.Contains(e.Where, s.noting)
}

// Classify implements [sqlstore.Dialect]. A server that is read-only, shuts down, starts up, has no connection left or
// resets one may do it later, or another one may.
func (dialect) Classify(err error) error {
	if adviceOn(codeOf(err)) != "" || badCertificate(err) || errors.Is(err, driver.ErrInvalid) {
		return driver.ErrInvalid
	}
	return driver.ErrUnavailable
}

// badCertificate says that one side does not trust the other's, as nothing but another set-up changes.
func badCertificate(err error) bool {
	// crypto/tls has no exported error for an alert of the other side, but over QUIC.
	alert, remote := errors.AsType[*net.OpError](err)
	return storeuri.Untrusted(err) ||
		remote && alert.Op == "remote error" && alert.Err.Error() != "tls: internal error"
}

// deposed says that a connection is not to be used again: its server takes no writes any more, or a pooler has put
// another in its place.
func deposed(err error) bool {
	switch codeOf(err) {
	case readOnlyTransaction, noSuchStatement, statementThere:
		return true
	}
	return errors.Is(err, errReadOnly) || errors.Is(err, errNoWrites) || errors.Is(err, driver.ErrOther)
}

// untold says that a server may not say which timeline it follows: the role may not ask, or it is something else that
// speaks as PostgreSQL does.
func untold(err error) bool {
	return slices.Contains([]string{noPrivilege, noFunction, notSupported}, codeOf(err))
}

// gone says that a table is missing: what is there later may be another store.
func gone(err error) bool { return slices.Contains([]string{noTable, noSchema}, codeOf(err)) }

// inherited says that the server has answered with an error that may come of what its session began with, such as a
// setting that was wrong for a moment, or a role that was made again. It is given up once in the time of a call.
func inherited(err error) bool {
	code := codeOf(err)
	return code != "" && !slices.Contains([]string{serializationFailure, deadlockDetected, lockNotAvailable}, code)
}

// broken says that a connection was lost, and perhaps long ago. One that cannot be made is not.
func broken(err error) bool {
	var lost net.Error
	if _, connecting := errors.AsType[*pgconn.ConnectError](err); connecting {
		return false
	}
	return errors.As(err, &lost) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, net.ErrClosed) || strings.HasPrefix(codeOf(err), "57P")
}

// plain is an error as one line that says what to do, without secrets.
type plain struct {
	err  error
	text string
}

func (p *plain) Error() string { return p.text }

func (p *plain) Unwrap() error { return p.err }

// explain makes a plain error of one of the driver's. That of a connection lists what each host said.
func (d dialect) explain(err error) error {
	if _, done := errors.AsType[*plain](err); done || err == nil {
		return err
	}
	text := err.Error()
	if failed, ok := errors.AsType[*pgconn.ConnectError](err); ok && failed.Unwrap() != nil {
		text = "connect: " + failed.Unwrap().Error()
	}
	lines := strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\t' || r == '\r' })
	text = storeuri.Scrub(strings.Join(lines, " "), d.secrets())
	if h := cmp.Or(adviceOn(codeOf(err)), passing[codeOf(err)]); h != "" {
		text += ": " + h
	} else if badCertificate(err) {
		text += ": name the authority in sslrootcert, and a certificate that the server takes in sslcert and sslkey"
	}
	return &plain{err, text}
}
