package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/dbstore"
	"github.com/shardctl/shardctl/pkg/store/internal/sqlstore"
)

// Reasons of [driver.Problem].
const (
	reasonNotDurable   = "StoreNotDurable"   // a crash may lose writes that were acknowledged
	reasonReplicaLags  = "StoreReplicaLags"  // a fail-over may
	reasonSeveralNodes = "StoreSeveralNodes" // several nodes take writes
	reasonPrivileged   = "StorePrivileged"   // the user may write to a read-only server
	reasonUnchecked    = "StoreUnchecked"    // who reads the binary log is not shown to the user
)

// leastWait is for how long a primary is to wait for a replica, in ms: for longer than any outage.
const leastWait = 3_600_000

// judged is a setting, and what it means that it does not hold.
type judged struct {
	driver.Setting
	reason, meaning string
}

// problems are the settings that do not hold.
func (f facts) problems() []driver.Problem {
	var all []driver.Problem
	for _, j := range f.settings() {
		switch {
		case j.reason == reasonUnchecked:
			all = append(all, driver.Problem{Reason: j.reason, Message: j.meaning})
		case !j.Holds:
			all = append(all, driver.Problem{
				Reason:  j.reason,
				Message: fmt.Sprintf("%s is %s, want %s: %s", j.Name, j.Value, j.Want, j.meaning),
			})
		}
	}
	return all
}

// settings are those that a promise hangs on.
func (f facts) settings() []judged {
	var all []judged
	add := func(name, want, reason, meaning string, holds bool) {
		value, there := f.values[name]
		if !there {
			return // this version does not have it
		}
		setting := driver.Setting{Name: name, Value: value, Want: want, Holds: holds, Forgets: true}
		all = append(all, judged{setting, reason, meaning})
	}
	const crash = "a crash of its machine may lose writes that were acknowledged"
	// MariaDB has 3 as well, which syncs at PREPARE and at COMMIT.
	flush := f.values["innodb_flush_log_at_trx_commit"]
	add("innodb_flush_log_at_trx_commit", "1", reasonNotDurable, crash, flush == "1" || flush == "3")
	method := strings.ToLower(f.values["innodb_flush_method"])
	add("innodb_flush_method", "one that syncs", reasonNotDurable, crash, method != "nosync" && method != "littlesync")
	// With a binary log, what is not in it is rolled back when the server comes up again.
	binlog := !f.on("log_bin") || f.values["sync_binlog"] == "1"
	add("sync_binlog", "1, or log_bin=OFF", reasonNotDurable, crash, binlog)
	add("innodb_doublewrite", "ON", reasonNotDurable, "a crash of its machine may leave pages half written",
		f.on("innodb_doublewrite") && !strings.EqualFold(f.values["innodb_doublewrite"], "DETECT_ONLY"))
	add("default_storage_engine", "", "", "", true) // tables are made with InnoDB in any case
	all = append(all, f.replication()...)
	if grant := f.granted(powers); grant != "" {
		all = append(all, judged{
			driver.Setting{Name: "grants", Value: "with " + grant, Want: "without SUPER and READ ONLY ADMIN"},
			reasonPrivileged, "the user may write to a server that is read-only since its fail-over",
		})
	}
	return all
}

// replication are the settings of replicas that are connected, and of Galera.
func (f facts) replication() []judged {
	var all []judged
	if f.on("wsrep_on") {
		size := f.values["wsrep_cluster_size"]
		all = append(all, judged{
			driver.Setting{
				Name: "wsrep_cluster_size", Value: size, Want: "one node that all replicas write to",
				Holds:   size == "1",
				Forgets: true,
			},
			reasonSeveralNodes, "Galera is untested: let the URI lead to one node at a time",
		})
	}
	enabled, on := f.first("rpl_semi_sync_master_enabled", "rpl_semi_sync_source_enabled")
	if enabled == "" || off(on) {
		replicas, known := f.replicas()
		if !known {
			return append(all, judged{Setting: driver.Setting{
				Name: "replicas", Holds: true,
				Value: "not shown to a user without the right PROCESS: make sure that semi-synchronous replication is on, " +
					"or no replica connected",
			}})
		}
		switch {
		case replicas == 0:
			return all
		case !f.listed:
			return append(all, judged{
				driver.Setting{Name: "replicas", Value: "not to be told from other readers of the binary log", Holds: true},
				reasonUnchecked, fmt.Sprintf("%d clients read the binary log, and this user cannot tell replicas from backups "+
					"and change capture (mysqlbinlog, Debezium): look at SHOW REPLICA HOSTS. Where a replica may be promoted, "+
					"semi-synchronous replication has to be on; where there is none, it must be off, or writes wait for ever.",
					replicas),
			})
		case f.registered == 0:
			value := fmt.Sprintf("none; %d others read the binary log", replicas)
			return append(all, judged{Setting: driver.Setting{Name: "replicas", Value: value, Holds: true}})
		}
	}
	const lost = "a fail-over may lose writes that were acknowledged"
	add := func(name, value, want string, holds bool) {
		setting := driver.Setting{Name: name, Value: value, Want: want, Holds: holds, Forgets: true}
		all = append(all, judged{setting, reasonReplicaLags, lost})
	}
	if enabled == "" {
		add("rpl_semi_sync", "not installed", "ON", false)
		return all
	}
	add(enabled, on, "ON", !off(on))
	point, where := f.first("rpl_semi_sync_master_wait_point", "rpl_semi_sync_source_wait_point")
	add(point, where, "AFTER_SYNC", where == "AFTER_SYNC")
	timeout, ms := f.first("rpl_semi_sync_master_timeout", "rpl_semi_sync_source_timeout")
	add(timeout, ms, fmt.Sprintf("%d or more", leastWait), f.number(timeout) >= leastWait)
	// Without it the primary no longer waits as soon as its last replica is gone.
	alone, waits := f.first("rpl_semi_sync_master_wait_no_slave", "rpl_semi_sync_source_wait_no_replica")
	if alone != "" {
		add(alone, waits, "ON", !off(waits))
	}
	// It shows a primary that has stopped to wait.
	status, active := f.first("rpl_semi_sync_master_status", "rpl_semi_sync_source_status")
	if status != "" && !off(on) {
		add(status, active, "ON", !off(active))
	}
	return all
}

// replicas is how many clients read the binary log, and whether that is known: replicas, but also backups and change
// capture. MariaDB counts them for every user. MySQL shows their threads to a user with the right PROCESS.
func (f facts) replicas() (n int64, known bool) {
	if _, counted := f.values["slaves_connected"]; counted {
		return f.number("slaves_connected"), true
	}
	return f.senders, f.senders > 0 || !f.on("log_bin") || f.granted(process) != ""
}

// Rights on the whole server. Several have a blank behind their comma or none.
var (
	powers  = onServer("ALL PRIVILEGES|SUPER|READ[ _]ONLY[ _]ADMIN|CONNECTION_ADMIN") // to write to a read-only server
	process = onServer("ALL PRIVILEGES|PROCESS")                                      // to see others' threads
)

func onServer(rights string) *regexp.Regexp {
	return regexp.MustCompile("(?:^GRANT |, ?)(" + rights + ")\\b[^`']* ON \\*\\.\\* ")
}

// granted is the first of these rights that the account has; empty: none.
func (f facts) granted(rights *regexp.Regexp) string {
	for _, grant := range f.grants {
		if found := rights.FindStringSubmatch(grant); found != nil {
			return found[1]
		}
	}
	return ""
}

// facts are what a server says of itself.
type facts struct {
	version string            // such as 10.11.19-MariaDB-log
	values  map[string]string // variables and counters by their names in lower case; a missing one is unknown to it
	grants  []string          // of the account; never shown, since they may hold a hash of its password
	senders int64             // threads that send the binary log, as far as the account sees them
	// registered is how many of those who read it are replicas, which register themselves. It is asked for where somebody
	// reads. listed: the account may see it.
	registered int64
	listed     bool
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
		err := run(ctx, conn, []sqlstore.Statement{
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
		if readers, _ := f.replicas(); err != nil || readers == 0 {
			return err
		}
		err = run(ctx, conn, []sqlstore.Statement{{Text: f.showReplicas(), Row: func(sqlstore.Row) error {
			f.registered++
			return nil
		}}})
		_, refused := errors.AsType[*mysql.MySQLError](err)
		if f.listed = err == nil; refused {
			return nil
		}
		return err
	})
	return f, err
}

// showReplicas lists those who have registered. Both databases know it by its old name, but for MySQL 8.4 and newer.
func (f facts) showReplicas() string {
	if f.mariaDB() {
		return `SHOW SLAVE HOSTS`
	}
	return `SHOW REPLICA HOSTS`
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
	return product + " " + dbstore.Numbers(f.version)
}

// refuse is an error for a server on which nothing would work.
func (f facts) refuse() error {
	least := minMySQL
	if f.mariaDB() {
		least = minMariaDB
	}
	older, known := dbstore.Older(f.version, least)
	switch packet := f.number("max_allowed_packet"); {
	case older, !known:
		return fmt.Errorf("%w: %s is too old: use MariaDB %s, MySQL %s or newer", driver.ErrInvalid, f.server(),
			minMariaDB, minMySQL)
	case f.on("log_bin") && strings.EqualFold(f.values["binlog_format"], "STATEMENT"):
		return fmt.Errorf("%w: binlog_format is STATEMENT, which READ COMMITTED does not work with: "+
			"set it to ROW or MIXED", driver.ErrInvalid)
	case packet < leastPacket:
		return fmt.Errorf("%w: max_allowed_packet is %d, want at least %d", driver.ErrInvalid, packet, leastPacket)
	case f.number("innodb_page_size") < leastPage:
		return fmt.Errorf("%w: innodb_page_size is %d, want at least %d: indexes need that much", driver.ErrInvalid,
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
