package mysql_test

import (
	"database/sql"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/store/mysql"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/testprocess"
	"github.com/shardctl/shardctl/test/testservers"
)

// A server may be further away than one call takes to connect to it.
func TestDistant(t *testing.T) {
	server := testservers.Shared(t, testservers.KindMariaDB)
	uri := server.Database()
	const trip = 100 * time.Millisecond
	link := testprocess.Far(t, server.Addr, trip)
	storetest.Distant{
		Network: link, Trip: trip, Connections: mysql.MaxConnections,
		URI: server.Via(link, uri),
	}.Run(t)
}

// A server without a connection left is asked rarely.
func TestFull(t *testing.T) {
	server := testservers.Start(t, testservers.KindMariaDB, "max_connections=20")
	uri := server.Database()
	link := server.Link()
	db := root(t, server)
	var others []*sql.Conn
	storetest.Full{
		Network: link, Says: "Too many connections", Makers: 1,
		URI: server.Via(link, uri),
		Fill: func() {
			link.Block()
			defer link.Unblock()
			link.Cut()
			for {
				conn, err := db.Conn(t.Context())
				if err != nil {
					return
				}
				others = append(others, conn)
			}
		},
		Free: func() {
			for _, conn := range others {
				_ = conn.Close()
			}
			_ = db.Close()
		},
	}.Run(t)
}
