package postgres_test

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/postgres"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/testprocess"
	"github.com/shardctl/shardctl/test/testservers"
)

// connections are those of a store: for calls, and the one that listens.
const connections = postgres.MaxCalls + 1

// A server may be further away than one call takes to connect to it.
func TestDistant(t *testing.T) {
	server := testservers.Shared(t, testservers.KindPostgres)
	const trip = 100 * time.Millisecond
	link := testprocess.Far(t, server.Addr, trip)
	storetest.Distant{
		Network: link, Trip: trip, Calls: 3, Connections: connections, URI: server.Via(link, server.Database()),
	}.Run(t)
}

// A server without a connection left is asked rarely.
func TestFull(t *testing.T) {
	server := testservers.Start(t, testservers.KindPostgres, "max_connections = 20")
	uri := server.Database()
	link := server.Link()
	var others []*pgx.Conn
	storetest.Full{
		Network: link, Says: "too many clients", Makers: 1, URI: server.Via(link, uri),
		Fill: func() {
			link.Block()
			defer link.Unblock()
			link.Cut()
			for {
				conn, err := pgx.Connect(t.Context(), uri)
				if err != nil {
					return
				}
				others = append(others, conn)
			}
		},
		Free: func() {
			for _, conn := range others {
				_ = conn.Close(t.Context())
			}
		},
	}.Run(t)
}

// A pooler that is paused, as while its server is restarted, takes connections and answers nothing. Each that is given
// up is one more of those that it has for all.
func TestPoolerPaused(t *testing.T) {
	server := testservers.Shared(t, testservers.KindPostgres)
	uri := server.Database()
	pooler := testservers.StartPgBouncer(t, server.Addr, "admin_users = shardctl")
	link := pooler.Link()
	admin := func(command string) {
		t.Helper()
		config, err := pgx.ParseConfig("postgres://shardctl@" + pooler.Addr + "/pgbouncer")
		if err != nil {
			t.Fatal(err)
		}
		config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
		conn, err := pgx.ConnectConfig(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close(t.Context()) }()
		if _, err := conn.Exec(t.Context(), command); err != nil {
			t.Fatal(err)
		}
	}
	storetest.Full{
		Network: link, Makers: 1,
		URI:  strings.ReplaceAll(uri, server.Addr, link.Addr),
		Fill: func() { admin("PAUSE"); link.Cut() },
		Free: func() { admin("RESUME") },
	}.Run(t)
}

// What a store finds out about a pooler leaves no connection behind that listens to anybody: it may be another's next.
func TestPoolerKeepsNoListener(t *testing.T) {
	server := testservers.Shared(t, testservers.KindPostgres)
	uri := server.Database()
	pooler := testservers.StartPgBouncer(t, server.Addr, "default_pool_size = 1")
	through := strings.ReplaceAll(uri, server.Addr, pooler.Addr)
	storetest.Open(t, driver.Config{URI: through})
	conn, err := pgx.Connect(t.Context(), through+"&default_query_exec_mode=simple_protocol")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	var n int
	if err := conn.QueryRow(t.Context(), `SELECT count(*) FROM pg_listening_channels()`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	if n > 0 {
		t.Errorf("the connection of the pool listens to %d channels", n)
	}
}
