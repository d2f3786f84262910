package mysql

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/shardctl/shardctl/pkg/store"
)

// Reasons of [store.Problem].
const (
	reasonNotDurable   = "StoreNotDurable"   // a crash may lose writes that were acknowledged
	reasonReplicaLags  = "StoreReplicaLags"  // a fail-over may
	reasonSeveralNodes = "StoreSeveralNodes" // several nodes take writes
	reasonPrivileged   = "StorePrivileged"   // the user may write to a read-only server
)

// leastWait is for how long a primary is to wait for a replica, in ms: for longer than any outage.
const leastWait = 3_600_000

// judged is a setting, and what it means that it does not hold.
type judged struct {
	store.Setting
	reason, meaning string
}

// problems are the settings that do not hold.
func (f facts) problems() []store.Problem {
	var all []store.Problem
	for _, j := range f.settings() {
		if !j.Holds {
			all = append(all, store.Problem{
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
		setting := store.Setting{Name: name, Value: value, Want: want, Holds: holds, Forgets: true}
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
			store.Setting{Name: "grants", Value: "with " + grant, Want: "without SUPER and READ ONLY ADMIN"},
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
			store.Setting{
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
			return append(all, judged{Setting: store.Setting{
				Name: "replicas", Holds: true,
				Value: "not shown to a user without the right PROCESS: make sure that semi-synchronous replication is on, " +
					"or no replica connected",
			}})
		}
		if replicas == 0 {
			return all
		}
	}
	const lost = "a fail-over may lose writes that were acknowledged"
	add := func(name, value, want string, holds bool) {
		setting := store.Setting{Name: name, Value: value, Want: want, Holds: holds, Forgets: true}
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

// replicas is how many are connected, and whether that is known. MariaDB counts them for every user. MySQL shows their
// threads to a user with the right PROCESS.
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
