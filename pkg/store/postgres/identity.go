package postgres

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/shardctl/shardctl/pkg/store/internal/sqlstore"
)

// timeline is the timeline that a server follows. Each promotion of a standby begins one with a higher number.
// Databases that were made apart, as the target of a logical replication is, are other systems.
type timeline struct {
	system string // empty: the server did not say
	number uint64
}

// timelines are the highest that were seen, by system. The zero value is ready to use. Its methods may be called
// concurrently.
type timelines struct {
	mu      sync.Mutex
	highest map[string]uint64
}

// note takes note of a server's timeline. The error says that the server was replaced: it may lack what its successor
// has acknowledged.
func (all *timelines) note(c timeline) error {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.highest[c.system] > c.number {
		return fmt.Errorf("the server follows timeline %d, and timeline %d has been seen: "+
			"it was replaced by a standby that was promoted; make it a standby of that one", c.number,
			all.highest[c.system])
	}
	if all.highest == nil {
		all.highest = map[string]uint64{}
	}
	all.highest[c.system] = c.number
	return nil
}

// current reports whether no later timeline than c was seen.
func (all *timelines) current(c timeline) bool {
	all.mu.Lock()
	defer all.mu.Unlock()
	return all.highest[c.system] <= c.number
}

// followed asks for a server's timeline. It needs the right to execute these functions, which everybody has as long as
// no one takes it away.
const (
	followed = `(SELECT system_identifier::text FROM pg_control_system()), ` +
		`CASE WHEN pg_is_in_recovery() THEN '' ELSE pg_walfile_name(pg_current_wal_lsn()) END`
	unfollowed = `'', ''`
)

// looking asks whether a server takes writes, for its timeline unless blind, and for the identity of the store, if that
// is known. doubt is that of [sqlstore.Identity.Ask].
func (c *connector) looking(blind bool) (text string, doubt int64) {
	from, identity := followed, `''`
	if blind {
		from = unfollowed
	}
	ask, doubt := c.identity.Ask()
	if ask != "" {
		identity = "(" + ask + ")"
	}
	return `SELECT current_setting('transaction_read_only'), ` + from + `, coalesce(` + identity + `, '')`, doubt
}

// judge refuses a server by what it answers to looking: one that takes no writes, has another store, or was replaced.
func (c *connector) judge(readOnly, system, wal, identity string) (timeline, error) {
	switch {
	case readOnly == "on" && wal == "": // a standby, or a server that may not be asked
		return timeline{}, errReadOnly
	case readOnly == "on":
		return timeline{}, errNoWrites
	}
	if err := c.identity.Check(identity); err != nil {
		return timeline{}, err
	}
	if system == "" || len(wal) < timelineDigits {
		return timeline{}, nil
	}
	number, err := strconv.ParseUint(wal[:timelineDigits], 16, 32)
	if err != nil {
		return timeline{}, fmt.Errorf("a file of the WAL has the name %q: %w", wal, err)
	}
	found := timeline{system, number}
	return found, c.seen.note(found)
}

// timelineDigits begin the name of a file of the WAL, in hexadecimal.
const timelineDigits = 8

// validate refuses a server whose connection is of no use, so that the next host is tried.
func (c *connector) validate(ctx context.Context, conn *pgconn.PgConn, made *connection) error {
	blind := c.blind.Load()
	err := c.look(ctx, conn, made, blind)
	if untold(err) && !blind {
		if err = c.look(ctx, conn, made, true); !untold(err) {
			c.blind.Store(true)
		}
	}
	if codeOf(err) == noTable {
		return c.identity.Check("")
	}
	return err
}

func (c *connector) look(ctx context.Context, conn *pgconn.PgConn, made *connection, blind bool) (err error) {
	text, doubt := c.looking(blind)
	result := conn.ExecParams(ctx, text, nil, nil, nil, nil).Read()
	if result.Err != nil {
		return result.Err
	}
	row := result.Rows[0] // of a SELECT without FROM
	made.timeline, err = c.judge(string(row[0]), string(row[1]), string(row[2]), string(row[3]))
	made.doubt = doubt
	return err
}

// lookNow is looking in a read, behind its queries: what is as it should be then was so before. A connection to a pooler
// outlasts the server behind it, which may be another one later.
func (c *connector) lookNow() sqlstore.Statement {
	text, _ := c.looking(c.blind.Load())
	return sqlstore.Statement{Text: text, Row: func(row sqlstore.Row) error {
		var readOnly, system, wal, identity string
		if err := row.Scan(&readOnly, &system, &wal, &identity); err != nil {
			return err
		}
		_, err := c.judge(readOnly, system, wal, identity)
		return err
	}}
}

// otherStore begins what the server is to take for a number, see sameStore.
const otherStore = "store "

// sameStore is a statement in front of a transaction that fails on another store than the known one. It is needed behind
// a pooler, and only a number that is none fails within a SELECT.
func (c *connector) sameStore() []sqlstore.Statement {
	ask, _ := c.identity.Ask()
	if ask == "" || !c.pooled.Load() {
		return nil
	}
	return []sqlstore.Statement{{
		Text: `SELECT CAST(CASE WHEN uuid = $1 THEN '0' ELSE '` + otherStore + `' || uuid END AS integer) ` +
			`FROM (SELECT coalesce((` + ask + `), '') AS uuid) AS there`,
		Args: []any{c.identity.Known()}, Row: func(sqlstore.Row) error { return nil },
	}}
}

// other is the error of a transaction that failed by sameStore as one that names both stores.
func (c *connector) other(err error) error {
	if codeOf(err) != noNumber {
		return err
	}
	_, after, is := strings.Cut(err.Error(), `"`+otherStore)
	found, _, _ := strings.Cut(after, `"`)
	if other := c.identity.Check(found); is && other != nil {
		return other
	}
	return err
}

// compare makes sure that a connection still leads to the store that is known, where that is in doubt.
func (c *connector) compare(ctx context.Context, made *connection) error {
	ask, doubt := c.identity.Ask()
	if ask == "" || made.doubt == doubt {
		return nil
	}
	if err := c.validate(ctx, made.conn.PgConn(), made); err != nil {
		return err
	}
	made.doubt = doubt
	return nil
}

// askAll connects to each of several hosts, to learn of the highest timeline: the first host may be one that was
// replaced. One that does not answer soon is left out.
func (c *connector) askAll(ctx context.Context) {
	config, within := c.source.Get(), c.patience
	if c.fixed {
		within = max(within, config.ConnectTimeout)
	}
	ctx, cancel := context.WithTimeout(ctx, min(within, c.limit))
	defer cancel()
	var asking sync.WaitGroup
	for _, one := range eachHost(config) {
		asking.Go(func() {
			if made, err := c.dial(ctx, one, false); err == nil {
				made.drop(ctx)
			}
		})
	}
	asking.Wait()
}
