package linearizability

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/mysql"
	"github.com/shardctl/shardctl/test/testservers"
)

// mysqlFaults does to a server what happens to servers, by seed, until it is asked to end.
type mysqlFaults struct {
	server   *testservers.Server
	links    []*testservers.Proxy
	users    []string
	random   *rand.Rand
	injected *injected
}

func (f *mysqlFaults) run(ctx context.Context) {
	for f.pause(ctx, 100, 1500) {
		switch f.random.IntN(12) {
		case 0:
			f.injected.add("server dies")
			f.server.Kill()
			f.pause(ctx, 10, 500)
			if err := f.server.Server().Start(context.WithoutCancel(ctx)); err != nil {
				return // the histories show it
			}
		case 1, 2:
			f.injected.add("server stands still")
			f.server.Freeze()
			f.pause(ctx, 50, 3000)
			f.server.Thaw()
		case 3, 4:
			f.injected.add("server is read-only")
			f.exec(ctx, "SET GLOBAL read_only = 1")
			f.pause(ctx, 50, 1500)
			f.exec(ctx, "SET GLOBAL read_only = 0")
		case 5:
			f.injected.add("connections killed by the server")
			f.exec(ctx, "KILL USER "+f.users[f.random.IntN(len(f.users))])
		case 6, 7:
			f.injected.add("nothing passes")
			link := f.links[f.random.IntN(len(f.links))]
			link.Block()
			f.pause(ctx, 50, 2000)
			link.Unblock()
		default:
			f.injected.add("connections cut")
			f.links[f.random.IntN(len(f.links))].Cut()
		}
	}
}

func (f *mysqlFaults) pause(ctx context.Context, from, to int) bool {
	return pauseBetween(ctx, f.random, from, to)
}

// exec may fail where the server is not there: then that is the fault.
func (f *mysqlFaults) exec(ctx context.Context, text string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	_ = testservers.MariaDBExec(ctx, f.server.Server(), text)
}

// database is one of the server's own, behind a link of its own.
func (f *mysqlFaults) database() database {
	link := f.server.Link()
	f.links = append(f.links, link)
	direct := f.server.Database()
	f.users = append(f.users, direct[strings.LastIndexByte(direct, '/')+1:])
	uri := f.server.Via(link, direct)
	return database{name: "MariaDB", freshLists: true, open: func(ctx context.Context) (store.Store, error) {
		return opened(mysql.Open(ctx, uri, mysql.Options{Timeout: 3 * time.Second}))
	}}
}

func TestMariaDB(t *testing.T) {
	t.Parallel()
	seed := seed(t)
	faults := &mysqlFaults{
		server: testservers.Start(t, testservers.KindMariaDB, "log-bin=binlog", "server-id=1", "max_connections=500"),
		random: rand.New(rand.NewPCG(seed, 5000)), injected: &injected{},
	}
	documents, locks := faults.database(), faults.database()
	whileRunning(t, faults.run)
	record(t, seed, documents, locks, faults.injected)
}
