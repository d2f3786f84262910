package mysql

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/sqlstore"
	"github.com/shardctl/shardctl/pkg/store/internal/storeuri"
)

// DB is connections as those of a store.
func DB(ctx context.Context, uri string) (*sql.DB, error) {
	c, err := callsOf(ctx, uri)
	if err != nil {
		return nil, err
	}
	return c.common, nil
}

func callsOf(ctx context.Context, uri string) (*calls, error) {
	source, err := storeuri.NewSource(driver.Config{URI: uri}, secrets, func(uri string) (sqldriver.Connector, error) {
		return dialer(uri, "", logr.Logger{})
	})
	if err != nil {
		return nil, err
	}
	identity := &sqlstore.Identity{}
	made := newMaker(ctx, source, DefaultTimeout, identity)
	db := sql.OpenDB(connector{made, false})
	return &calls{made: made, identity: identity, common: db, own: db, timeout: DefaultTimeout}, nil
}

// On has a server with one connection call f within one context, and then another within ctx.
func On(ctx context.Context, uri string, within context.Context, //nolint:revive // two contexts are the point
	f, then func(context.Context, *sql.Conn) error,
) error {
	c, err := callsOf(ctx, uri)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close(ctx) }()
	c.common.SetMaxOpenConns(1)
	_ = c.on(within, sqlstore.Common, f)
	return c.on(ctx, sqlstore.Common, then)
}

// Replicas is how many replicas a server shows to a user where it has no counter of them, as MySQL, and whether that is
// known.
func Replicas(ctx context.Context, uri string) (n int64, known bool, err error) {
	c, err := callsOf(ctx, uri)
	if err != nil {
		return 0, false, err
	}
	defer func() { _ = c.Close(ctx) }()
	f, err := c.facts(ctx)
	delete(f.values, "slaves_connected")
	n, known = f.replicas()
	return n, known, err
}
