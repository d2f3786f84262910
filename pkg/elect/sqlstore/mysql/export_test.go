package mysql

import (
	"database/sql"

	"github.com/go-logr/logr"
)

// DB is connections as those of a store.
func DB(uri string) (*sql.DB, error) {
	t, err := parse(uri, "")
	if err != nil {
		return nil, err
	}
	c, err := newConnector(t, logr.Logger{})
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(c), nil
}
