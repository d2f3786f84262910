package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/internal/engine"
	"github.com/shardctl/shardctl/pkg/store/internal/sqlstore"
)

// facts are what a server says of itself.
type facts struct {
	version string            // such as 10.11.19-MariaDB-log
	values  map[string]string // variables and counters by their names in lower case; a missing one is unknown to it
	grants  []string          // of the account; never shown, since they may hold a hash of its password
	senders int64             // threads that send the binary log to a replica, as far as the account sees them
}

// asked are the variables and counters. Both databases' names are among them.
const asked = `('read_only', 'innodb_read_only', 'max_allowed_packet', 'log_bin', 'binlog_format', 'sync_binlog', ` +
	`'innodb_flush_log_at_trx_commit', 'innodb_flush_method', 'innodb_doublewrite', 'default_storage_engine', ` +
	`'rpl_semi_sync_master_enabled', 'rpl_semi_sync_master_wait_point', 'rpl_semi_sync_master_timeout', ` +
	`'rpl_semi_sync_source_enabled', 'rpl_semi_sync_source_wait_point', 'rpl_semi_sync_source_timeout', ` +
	`'rpl_semi_sync_master_wait_no_slave', 'rpl_semi_sync_source_wait_no_replica', 'rpl_semi_sync_master_status', ` +
	`'rpl_semi_sync_source_status', 'slaves_connected', 'wsrep_on', 'wsrep_cluster_size', ` +
	`'innodb_page_size')`

// senders counts replicas where the server has no counter of them. Without the right PROCESS it finds none.
const senders = `SELECT count(*) FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'`

// facts asks for them, in one round trip.
func (c *calls) facts(ctx context.Context) (facts, error) {
	f := facts{values: map[string]string{}}
	pair := func(row sqlstore.Row) error {
		var name, value string
		err := row.Scan(&name, &value)
		f.values[strings.ToLower(name)] = value
		return err
	}
	err := c.on(ctx, sqlstore.Common, func(ctx context.Context, conn *sql.Conn) error {
		return run(ctx, conn, []sqlstore.Statement{
			{Text: `SELECT VERSION()`, Row: func(row sqlstore.Row) error { return row.Scan(&f.version) }},
			{Text: `SHOW GLOBAL VARIABLES WHERE Variable_name IN ` + asked, Row: pair},
			{Text: `SHOW GLOBAL STATUS WHERE Variable_name IN ` + asked, Row: pair},
			{Text: senders, Row: func(row sqlstore.Row) error { return row.Scan(&f.senders) }},
			{Text: `SHOW GRANTS`, Row: func(row sqlstore.Row) error {
				var grant string
				err := row.Scan(&grant)
				f.grants = append(f.grants, grant)
				return err
			}},
		})
	})
	return f, err
}

func (f facts) number(name string) int64 {
	n, _ := strconv.ParseInt(f.values[name], 10, 64) // what is no number counts as 0
	return n
}

// on says whether a variable is there and on.
func (f facts) on(name string) bool {
	value, there := f.values[name]
	return there && !off(value)
}

// first is the first of these variables that the server knows, by name and value.
func (f facts) first(names ...string) (name, value string) {
	for _, name := range names {
		if value, there := f.values[name]; there {
			return name, value
		}
	}
	return "", ""
}

// Oldest versions. They know recursive queries, CHECK and utf8mb4 alike, and were the oldest under maintenance.
const (
	minMariaDB = "10.6"
	minMySQL   = "8.0"
)

func (f facts) mariaDB() bool { return strings.Contains(f.version, "MariaDB") }

// server is product and version, for people.
func (f facts) server() string {
	product := "MySQL"
	if f.mariaDB() {
		product = "MariaDB"
	}
	return product + " " + engine.Numbers(f.version)
}

// refuse is an error for a server on which nothing would work.
func (f facts) refuse() error {
	least := minMySQL
	if f.mariaDB() {
		least = minMariaDB
	}
	older, known := engine.Older(f.version, least)
	switch packet := f.number("max_allowed_packet"); {
	case older, !known:
		return fmt.Errorf("%w: %s is too old: use MariaDB %s, MySQL %s or newer", store.ErrInvalid, f.server(),
			minMariaDB, minMySQL)
	case f.on("log_bin") && strings.EqualFold(f.values["binlog_format"], "STATEMENT"):
		return fmt.Errorf("%w: binlog_format is STATEMENT, which READ COMMITTED does not work with: "+
			"set it to ROW or MIXED", store.ErrInvalid)
	case packet < leastPacket:
		return fmt.Errorf("%w: max_allowed_packet is %d, want at least %d", store.ErrInvalid, packet, leastPacket)
	case f.number("innodb_page_size") < leastPage:
		return fmt.Errorf("%w: innodb_page_size is %d, want at least %d: indexes need that much", store.ErrInvalid,
			f.number("innodb_page_size"), leastPage)
	case f.on("read_only"), f.on("innodb_read_only"):
		return errReadOnly
	}
	return nil
}

// leastPage is enough for an index of two texts.
const leastPage = 16 << 10

// leastPacket is enough for a batch without bodies, or a few documents with the largest.
const leastPacket = 4 << 20
