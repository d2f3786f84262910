package postgres

import (
	"context"
	"fmt"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/internal/sqlstore"
)

// Reasons of [store.Problem].
const (
	ReasonNotDurable    = "StoreNotDurable"    // a crash may lose what was acknowledged
	ReasonNotReplicated = "StoreNotReplicated" // a failover may lose what was acknowledged
	ReasonPolled        = "StorePolled"        // LISTEN hears nothing
)

// found is what a server says of itself.
type found struct {
	version, fsync, pages, commit, names string
	standbys                             int64
}

func (s *server) look(ctx context.Context) (found, error) {
	var f found
	err := s.Query(ctx, sqlstore.Common, sqlstore.Statement{
		Text: `SELECT current_setting('server_version'), current_setting('fsync'), ` +
			`current_setting('full_page_writes'), current_setting('synchronous_commit'), ` +
			`current_setting('synchronous_standby_names'), (SELECT count(*) FROM pg_stat_replication)`,
		Row: func(row sqlstore.Row) error {
			return row.Scan(&f.version, &f.fsync, &f.pages, &f.commit, &f.names, &f.standbys)
		},
	})
	return f, err
}

// Inspect implements [sqlstore.Server].
func (s *server) Inspect(ctx context.Context) (store.Inspection, error) {
	f, err := s.look(ctx)
	return store.Inspection{Server: "PostgreSQL " + f.version, Settings: f.settings()}, err
}

func (f found) settings() []store.Setting {
	commit := f.commit
	if weak(commit) {
		commit = fmt.Sprintf("on in transactions of this store, %s in others", commit)
	}
	names := store.Setting{Name: "synchronous_standby_names", Value: f.names, Holds: true, Forgets: true}
	if f.standbys > 0 {
		names.Want = "one standby at least that each COMMIT waits for"
		names.Holds = f.names != ""
	}
	return []store.Setting{
		{Name: "fsync", Value: f.fsync, Want: "on", Holds: f.fsync == "on", Forgets: true},
		{Name: "full_page_writes", Value: f.pages, Want: "on", Holds: f.pages == "on", Forgets: true},
		{Name: "synchronous_commit", Value: commit, Want: "on or remote_apply", Holds: true},
		names,
	}
}

// problems are those that settings make.
func (f found) problems() []store.Problem {
	var all []store.Problem
	for _, setting := range f.settings() {
		if setting.Holds {
			continue
		}
		p := store.Problem{Reason: ReasonNotDurable, Message: fmt.Sprintf(
			"PostgreSQL's %s is %q: a crash may lose what was acknowledged; set it to %s", setting.Name, setting.Value,
			setting.Want,
		)}
		if setting.Name == "synchronous_standby_names" {
			p = store.Problem{Reason: ReasonNotReplicated, Message: fmt.Sprintf(
				"PostgreSQL has %d standbys and waits for none (synchronous_standby_names is empty): a failover may lose "+
					"what was acknowledged; name one at least that each COMMIT waits for", f.standbys,
			)}
		}
		all = append(all, p)
	}
	return all
}

// polled says that notifications do not arrive.
func polled() store.Problem {
	return store.Problem{Reason: ReasonPolled, Message: fmt.Sprintf(
		"PostgreSQL's notifications do not arrive, as behind a pooler in transaction mode: changes are looked for every %v; "+
			"for less load and delay connect to the server itself, or use session mode", pollEvery,
	)}
}
