package linearizability

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/postgres"
	"github.com/shardctl/shardctl/test/testservers"
)

// postgresFaults does to a primary and its synchronous standby what happens to servers, by seed, until it is asked to
// end. After half of the time the primary dies for good, and the standby takes its place.
type postgresFaults struct {
	pair     *testservers.PostgresPair
	links    []*testservers.Proxy
	promoted time.Time // when the standby takes the primary's place
	random   *rand.Rand
	injected *injected
}

func (f *postgresFaults) run(ctx context.Context) {
	server, alone := f.pair.Primary, false
	for f.pause(ctx, 100, 1500) {
		if !alone && time.Now().After(f.promoted) {
			f.injected.add("standby promoted")
			server.Kill()
			server, alone = f.pair.Standby, true
			f.exec(ctx, server, `SELECT pg_promote()`)
			continue
		}
		switch f.random.IntN(12) {
		case 0:
			f.injected.add("server dies")
			server.Kill()
			f.pause(ctx, 10, 500)
			if err := server.Server().Start(context.WithoutCancel(ctx)); err != nil {
				return // the histories show it
			}
		case 1, 2:
			f.injected.add("server stands still")
			server.Freeze()
			f.pause(ctx, 50, 3000)
			server.Thaw()
		case 3, 4:
			if alone {
				continue
			}
			f.injected.add("standby stands still")
			f.pair.Standby.Freeze()
			f.pause(ctx, 50, 2000)
			f.pair.Standby.Thaw()
		case 5:
			f.injected.add("connections ended by the server")
			f.exec(ctx, server, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'shardctl'`)
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

func (f *postgresFaults) pause(ctx context.Context, from, to int) bool {
	return pauseBetween(ctx, f.random, from, to)
}

// exec may fail where the server is not there: then that is the fault.
func (*postgresFaults) exec(ctx context.Context, server *testservers.Server, text string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, "postgres://shardctl@"+server.Addr+"/postgres?sslmode=disable")
	if err != nil {
		return
	}
	defer func() { _ = conn.Close(ctx) }()
	_, _ = conn.Exec(ctx, text)
}

// database is one of the servers' own, behind links of its own.
func (f *postgresFaults) database() database {
	primary, standby := f.pair.Primary.Link(), f.pair.Standby.Link()
	f.links = append(f.links, primary, standby)
	uri := strings.Replace(f.pair.Primary.Database(), f.pair.Primary.Addr, primary.Addr+","+standby.Addr, 1)
	return database{name: "PostgreSQL", freshLists: true, open: func(ctx context.Context) (store.Store, error) {
		return opened(postgres.Open(ctx, postgres.Options{URI: uri, Timeout: 2 * time.Second}))
	}}
}

func TestPostgreSQL(t *testing.T) {
	t.Parallel()
	seed := seed(t)
	faults := &postgresFaults{
		pair:   testservers.StartPostgresPair(t, "max_connections = 300"),
		random: rand.New(rand.NewPCG(seed, 6000)), injected: &injected{},
	}
	documents, locks := faults.database(), faults.database()
	faults.promoted = time.Now().Add(length() / 2)
	whileRunning(t, faults.run)
	record(t, seed, documents, locks, faults.injected)
}
