package mysql

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	mysqldriver "github.com/go-sql-driver/mysql"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/sqlstore"
)

// good are the facts of a server that holds all promises.
func good() facts {
	f := facts{version: "10.11.19-MariaDB-log", values: map[string]string{
		"read_only": "OFF", "innodb_read_only": "OFF", "max_allowed_packet": "16777216", "innodb_page_size": "16384",
		"log_bin":       "ON",
		"binlog_format": "MIXED", "sync_binlog": "1", "innodb_flush_log_at_trx_commit": "1",
		"innodb_flush_method": "O_DIRECT", "innodb_doublewrite": "ON", "slaves_connected": "1",
		"rpl_semi_sync_master_enabled": "ON", "rpl_semi_sync_master_wait_point": "AFTER_SYNC",
		"rpl_semi_sync_master_timeout": "3600000", "wsrep_on": "OFF",
	}, grants: []string{"GRANT USAGE ON *.* TO `u`@`%`", "GRANT ALL PRIVILEGES ON `super, x`.* TO `u`@`%`"}}
	f.registered, f.listed = 1, true
	return f
}

func TestProblems(t *testing.T) {
	if got := good().problems(); len(got) > 0 {
		t.Fatalf("problems of a good server: %+v", got)
	}
	for _, tt := range []struct{ name, value, reason string }{
		{"innodb_flush_log_at_trx_commit", "2", reasonNotDurable},
		{"innodb_flush_log_at_trx_commit", "0", reasonNotDurable},
		{"sync_binlog", "0", reasonNotDurable},
		{"innodb_flush_method", "nosync", reasonNotDurable},
		{"innodb_doublewrite", "OFF", reasonNotDurable},
		{"innodb_doublewrite", "DETECT_ONLY", reasonNotDurable},
		{"rpl_semi_sync_master_enabled", "OFF", reasonReplicaLags},
		{"rpl_semi_sync_master_wait_point", "AFTER_COMMIT", reasonReplicaLags},
		{"rpl_semi_sync_master_timeout", "10000", reasonReplicaLags},
		{"rpl_semi_sync_master_wait_no_slave", "OFF", reasonReplicaLags},
		{"rpl_semi_sync_master_status", "OFF", reasonReplicaLags},
		{"wsrep_on", "ON", reasonSeveralNodes},
	} {
		f := good()
		f.values[tt.name] = tt.value
		got := f.problems()
		if len(got) != 1 || got[0].Reason != tt.reason || !strings.Contains(got[0].Message, "want ") {
			t.Errorf("%s=%s: got %+v, want one %s", tt.name, tt.value, got, tt.reason)
		}
	}
	f := good()
	f.values["log_bin"], f.values["sync_binlog"] = "OFF", "0"
	if got := f.problems(); len(got) > 0 {
		t.Errorf("sync_binlog without a binary log: %+v", got)
	}
	for _, grant := range []string{
		"GRANT ALL PRIVILEGES ON *.* TO `u`@`%`", "GRANT SELECT, SUPER ON *.* TO `u`@`%`",
		"GRANT READ_ONLY ADMIN ON *.* TO `u`@`%`", "GRANT RELOAD, READ ONLY ADMIN, EVENT ON *.* TO `u`@`%`",
		"GRANT CONNECTION_ADMIN ON *.* TO `u`@`%`",
		"GRANT AUDIT_ADMIN,CONNECTION_ADMIN,XA_RECOVER_ADMIN ON *.* TO `u`@`%`",
	} {
		f.grants = []string{grant}
		if got := f.problems(); len(got) != 1 || got[0].Reason != reasonPrivileged {
			t.Errorf("%s: got %+v", grant, got)
		}
	}
}

// MySQL has no counter of replicas: their threads count, where the user may see them.
func TestReplicasOfMySQL(t *testing.T) {
	const usage, process = "GRANT USAGE ON *.* TO `u`@`%`", "GRANT SELECT, PROCESS ON *.* TO `u`@`%`"
	for name, tt := range map[string]struct {
		semiSync, logBin, grant string
		senders, registered     int64  // below 0: not shown
		want                    string // reasons of problems, and settings that are only shown
	}{
		"replica, not semi-synchronous": {"OFF", "ON", process, 2, 1, reasonReplicaLags},
		"replica, plugin missing":       {"", "ON", process, 1, 1, reasonReplicaLags},
		"semi-synchronous replica":      {"ON", "ON", process, 1, 1, ""},
		"no replica":                    {"OFF", "ON", process, 0, 0, ""},
		"no binary log":                 {"OFF", "OFF", usage, 0, 0, ""},
		"not shown":                     {"OFF", "ON", usage, 0, 0, "replicas"},
		"not shown, semi-synchronous":   {"ON", "ON", usage, 0, 0, ""},
		"a backup alone":                {"OFF", "ON", process, 1, 0, "replicas"},
		"who reads is not shown":        {"OFF", "ON", process, 1, -1, reasonUnchecked + " replicas"},
	} {
		f := good()
		f.version, f.grants, f.senders = "8.4.0", []string{tt.grant}, tt.senders
		f.registered, f.listed = tt.registered, tt.registered >= 0
		for variable := range f.values {
			if strings.HasPrefix(variable, "rpl_") || variable == "slaves_connected" {
				delete(f.values, variable)
			}
		}
		f.values["log_bin"] = tt.logBin
		if tt.semiSync != "" {
			f.values["rpl_semi_sync_source_enabled"] = tt.semiSync
			f.values["rpl_semi_sync_source_wait_point"] = "AFTER_SYNC"
			f.values["rpl_semi_sync_source_timeout"] = "3600000"
		}
		var got []string
		for _, p := range f.problems() {
			got = append(got, p.Reason)
		}
		for _, s := range f.settings() {
			if s.Name == "replicas" {
				got = append(got, s.Name)
			}
		}
		if text := strings.Join(slices.Compact(got), " "); text != tt.want {
			t.Errorf("%s: got %q, want %q", name, text, tt.want)
		}
	}
}

func TestRefusedServers(t *testing.T) {
	if err := good().refuse(); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		change func(f *facts)
		want   string
		is     error
	}{
		{func(f *facts) { f.version = "10.5.26-MariaDB" }, "MariaDB 10.5.26 is too old", driver.ErrInvalid},
		{func(f *facts) { f.version = "9.9-MariaDB" }, "MariaDB 9.9 is too old", driver.ErrInvalid},
		{func(f *facts) { f.version = "unknown" }, "is too old", driver.ErrInvalid},
		{func(f *facts) { f.version = "5.7.44-log" }, "MySQL 5.7.44 is too old", driver.ErrInvalid},
		{func(f *facts) { f.values["binlog_format"] = "STATEMENT" }, "ROW or MIXED", driver.ErrInvalid},
		{func(f *facts) { f.values["max_allowed_packet"] = "1048576" }, "want at least", driver.ErrInvalid},
		{func(f *facts) { f.values["innodb_page_size"] = "8192" }, "innodb_page_size is 8192", driver.ErrInvalid},
		{func(f *facts) { f.values["read_only"] = "ON" }, "name the primary", errReadOnly},
	} {
		f := good()
		tt.change(&f)
		if err := f.refuse(); !errors.Is(err, tt.is) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("got %v, want %q", err, tt.want)
		}
	}
	for _, version := range []string{"10.6.0-MariaDB", "11.4.2-MariaDB", "10.10.1-MariaDB", "8.0.36-28", "8.4.0"} {
		f := good()
		f.version = version
		if err := f.refuse(); err != nil {
			t.Errorf("%s: %v", version, err)
		}
	}
}

func TestClassify(t *testing.T) {
	s := dialect("")
	for number, want := range map[uint16]error{
		erAccessDenied: driver.ErrInvalid, erBadDB: driver.ErrInvalid, erTableAccessDenied: driver.ErrInvalid,
		erDBAccessDenied: driver.ErrInvalid, erStatementFormat: driver.ErrInvalid,
		1053: driver.ErrUnavailable, 1317: driver.ErrUnavailable, 1927: driver.ErrUnavailable, 1047: driver.ErrUnavailable,
		erOptionPrevents: driver.ErrUnavailable, erReadOnlyMode: driver.ErrUnavailable,
		erLockDeadlock: driver.ErrUnavailable, erTooManyConnections: driver.ErrUnavailable,
	} {
		err := explain(fmt.Errorf("x: %w", &mysqldriver.MySQLError{Number: number, Message: "text"}))
		if got := s.Classify(err); !errors.Is(got, want) {
			t.Errorf("%d: got %v, want %v", number, got, want)
		}
		if busy := s.Busy(err); busy != (number == erLockDeadlock) {
			t.Errorf("%d: busy %t", number, busy)
		}
	}
	for _, refused := range []error{mysqldriver.ErrUnknownPlugin, mysqldriver.ErrNoTLS, mysqldriver.ErrOldProtocol} {
		if got := s.Classify(explain(refused)); !errors.Is(got, driver.ErrInvalid) {
			t.Errorf("%v: got %v", refused, got)
		}
	}
	deadlock := &mysqldriver.MySQLError{Number: erLockDeadlock}
	if s.Busy(partError{deadlock}) {
		t.Error("busy, though a part of the batch was written")
	}
}

// A transaction is sent once more without notes only where the server has answered that it is rolled back, and with all
// of it.
func TestNoteFailed(t *testing.T) {
	column := &mysqldriver.MySQLError{Number: 1364, Message: "Field 'tenant' doesn't have a default value"}
	for name, tt := range map[string]struct {
		err  error
		want bool
	}{
		"a column":      {column, true},
		"no table":      {&mysqldriver.MySQLError{Number: 1146}, true},
		"no right":      {explain(&mysqldriver.MySQLError{Number: erTableAccessDenied}), true},
		"a deadlock":    {&mysqldriver.MySQLError{Number: erLockDeadlock}, false},
		"read-only":     {explain(&mysqldriver.MySQLError{Number: erOptionPrevents}), false},
		"within COMMIT": {&mysqldriver.MySQLError{Number: erDuringCommit}, false},
		"killed":        {&mysqldriver.MySQLError{Number: erInterrupted}, false},
		"a later part":  {partError{column}, false},
		"no answer":     {mysqldriver.ErrInvalidConn, false},
	} {
		if got := (&server{}).NoteFailed(tt.err); got != tt.want {
			t.Errorf("%s: %t, want %t", name, got, tt.want)
		}
	}
}

// A text ends behind a query, so that no change is apart from its lines of the log.
func TestParts(t *testing.T) {
	query := func(sqlstore.Row) error { return nil }
	var statements []sqlstore.Statement
	for range 10 {
		statements = append(statements,
			sqlstore.Statement{Text: "note"}, sqlstore.Statement{Text: "change", Args: []any{make([]byte, 100)}},
			sqlstore.Statement{Text: "query", Row: query})
	}
	var lengths []int
	all := 0
	for part := range parts(statements, 400) {
		if part[0].Text != "note" || part[len(part)-1].Row == nil {
			t.Errorf("a part from %s to %s", part[0].Text, part[len(part)-1].Text)
		}
		lengths = append(lengths, len(part))
		all += len(part)
	}
	if all != len(statements) || !slices.Equal(lengths, []int{9, 9, 9, 3}) {
		t.Errorf("parts of %v, %d in all", lengths, all)
	}
}

func TestLockNamesFit(t *testing.T) {
	long := lockName(strings.Repeat("d", 64), strings.Repeat("n", 64))
	if len(long) > 64 || long == lockName("other", strings.Repeat("n", 64)) {
		t.Errorf("got %s", long)
	}
}
