package mysql

import (
	"context"
	"database/sql"
	"time"

	"github.com/shardctl/shardctl/pkg/elect/store"
)

// server is the database that a store is in. It implements [sqlstore.Server].
type server struct {
	name, database string
	db             *sql.DB
	timeout        time.Duration // of calls whose context has no deadline
	poll           time.Duration
	textSize       int // bytes of a text of statements, from which on another is begun
	problems       []store.Problem
}

// String implements [sqlstore.Dialect].
func (s *server) String() string { return s.name }

// Problems implements [sqlstore.Server].
func (s *server) Problems() []store.Problem { return s.problems }

// Close implements [sqlstore.Server]. That a connection broke before it could say goodbye is no error.
func (s *server) Close(context.Context) error {
	_ = s.db.Close()
	return nil
}
