package sqlstore

import (
	"context"
	"errors"
	"sync"

	"github.com/google/uuid"

	"github.com/shardctl/shardctl/pkg/store/driver"
)

// identityStep makes the table that says which store this is: one row with a UUID, written once. It is no document, so a
// copy to another store has its own. Dumps and replication carry it: what they make is the same store.
const identityStep = 6

// identityPieces are the table and its row. Other programs that find the table in place have grants on the tables of
// their time alone. Where tables are made in no transaction, a set-up may have ended before the row was written.
func (w writing) identityPieces(public func(table string) string) []piece {
	table := w.name("identity")
	row := w.fill(table, `INSERT INTO $table (one, uuid) SELECT 1, '`+uuid.NewString()+
		`' FROM (SELECT count(*) AS n FROM $table) AS there WHERE n = 0`)
	made := w.table("identity", `one $integer PRIMARY KEY CHECK (one = 1), uuid $text NOT NULL`)
	if public != nil {
		made.Create = append(made.Create, public(table))
	}
	made.Create = append(made.Create, row)
	return []piece{made, {step: identityStep, Piece: Piece{Create: []string{row}}}}
}

// Identity is by which a [Server] knows its store again. Connections are compared when they are made: a name may lead
// to another store by then. Its zero value is not known, and then nothing is compared. Its methods may be called
// concurrently.
type Identity struct {
	mu     sync.Mutex
	ask    string
	uuid   string
	doubts int64
}

// Ask is a query for one text, the identity of the store that a connection leads to, and the number of the doubt that is
// settled by it. The text is empty as long as the identity is not known.
func (i *Identity) Ask() (query string, doubt int64) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.ask, i.doubts
}

// Known is the identity of the store; empty: not known.
func (i *Identity) Known() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.uuid
}

// Check compares what a connection leads to; empty: it has no identity. The error is [driver.ErrOther].
func (i *Identity) Check(found string) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.ask == "" || found == i.uuid {
		return nil
	}
	return driver.Other(i.uuid, found)
}

// Doubt has all connections be compared again before they are used: a table is missing, and what is there later may be
// another store.
func (i *Identity) Doubt() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.doubts++
}

// learn takes note of the identity. Connections that were made before are to be compared.
func (i *Identity) learn(query, found string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.ask, i.uuid = query, found
	i.doubts++
}

// identify finds out which store this is, where it says so, and this client may read it.
func (s *schema) identify(ctx context.Context, taken int) error {
	server, ok := s.dialect.(Server)
	if !ok || taken < identityStep {
		return nil
	}
	found, ask := "", s.sql.schema.identity
	err := s.query(ctx, Statement{Text: ask, Row: func(row Row) error { return row.Scan(&found) }})
	switch {
	case err != nil && errors.Is(Sentinel(s.dialect, err), driver.ErrInvalid):
		s.log.V(1).Info("The identity of the store cannot be read", "error", err.Error())
	case err != nil:
		return err
	case found != "":
		server.Identity().learn(ask, found)
	}
	return nil
}
