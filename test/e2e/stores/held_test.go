//go:build linux

package stores_test

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/test/e2e/history"
	. "github.com/shardctl/shardctl/test/e2e/suite"
	"github.com/shardctl/shardctl/test/testservers"
)

// forHolding is how long somebody may wait for the tables until he has them.
const forHolding = 10 * time.Second

// holding are stores with tables that somebody can have to himself: what takes all of a cluster's but that of sessions
// and returns when it has them.
var holding = map[testservers.Kind]func(ctx context.Context, r *rig, tables []string) (release func()){
	testservers.KindPostgres: holdPostgres,
	testservers.KindMariaDB:  holdMariaDB,
}

// prefix begins the names of the tables: the name of the cluster in the configuration of its replicas.
const prefix = "e2e_"

// held has somebody hold every table but that of sessions for three leases.
func (r *rig) held(ctx SpecContext) {
	GinkgoHelper()
	tables := []string{prefix + "schema", prefix + "notifications"}
	for _, info := range driver.Table() {
		if info.Kind != driver.KindSession {
			tables = append(tables, prefix+info.Plural)
		}
	}
	asked := history.Now()
	release := holding[r.kind](ctx, r, tables)
	at := history.Now()
	WaitUntil(ctx, at.Add(3*Lease))
	h := Load(r.cluster)
	Expect(h.Started(asked, history.Now())).To(BeEmpty(), "no task restarted")
	Expect(h.Owners()).To(HaveLen(tasks))
	release()
	freed := history.Now()
	WaitUntil(ctx, freed.Add(2*Lease)) // had anybody lost a lease, it would show by now
	h = Load(r.cluster)
	Expect(h.Started(asked, history.Now())).To(BeEmpty(), "no task restarted")
	Expect(h.Owners()).To(HaveLen(tasks))
	Figure(r.name(), "every table but that of sessions held for %s: no task of %d restarted", ms(freed.Sub(at)), tasks)
	r.leave(ctx) // everything goes on
}

// heldSessions has somebody hold the table of sessions for three leases: for heartbeats that is a store that is away.
func (r *rig) heldSessions(ctx SpecContext) {
	GinkgoHelper()
	live := r.cluster.Live()
	release := holding[r.kind](ctx, r, []string{prefix + driver.KindSession.Info().Plural})
	at := history.Now()
	WaitUntil(ctx, at.Add(3*Lease))
	h := Load(r.cluster)
	for _, one := range live {
		Expect(h.AliveAfter(one.Name, at.Add(HardDeadline+time.Second))).To(BeEmpty(), "tasks of %s end in time",
			one.Name)
	}
	freed := history.Now()
	release()
	_, last := r.taken(ctx, r.cluster.Keys(), freed)
	r.spread(ctx)
	Expect(r.cluster.Live()).To(HaveLen(len(live)), "no replica has ended")
	Figure(r.name(), "the table of sessions held for 3 T: all keys run %s after it is free", ms(last.Sub(freed)))
}

// holdPostgres takes tables as VACUUM FULL and ALTER TABLE do.
func holdPostgres(ctx context.Context, r *rig, tables []string) (release func()) {
	GinkgoHelper()
	ctx, cancel := context.WithTimeout(ctx, forHolding)
	defer cancel()
	conn, err := pgx.Connect(ctx, r.uri)
	Expect(err).NotTo(HaveOccurred())
	release = func() { Expect(conn.Close(context.WithoutCancel(ctx))).To(Succeed()) }
	_, err = conn.Exec(ctx, `BEGIN; LOCK TABLE `+strings.Join(tables, ", ")+` IN ACCESS EXCLUSIVE MODE`)
	Expect(err).NotTo(HaveOccurred())
	return release
}

// holdMariaDB takes tables as ALTER TABLE does.
func holdMariaDB(ctx context.Context, r *rig, tables []string) (release func()) {
	GinkgoHelper()
	ctx, cancel := context.WithTimeout(ctx, forHolding)
	defer cancel()
	uri, err := url.Parse(r.uri)
	Expect(err).NotTo(HaveOccurred())
	grant := fmt.Sprintf("GRANT LOCK TABLES ON *.* TO %s@'%%'", uri.User.Username())
	Expect(testservers.MariaDBExec(ctx, r.server, grant)).To(Succeed())
	c := mysql.NewConfig()
	c.User, c.Net, c.Addr, c.DBName = uri.User.Username(), "tcp", uri.Host, strings.TrimPrefix(uri.Path, "/")
	c.Passwd, _ = uri.User.Password()
	connector, err := mysql.NewConnector(c)
	Expect(err).NotTo(HaveOccurred())
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(1)
	_, err = db.ExecContext(ctx, `LOCK TABLES `+strings.Join(tables, " WRITE, ")+` WRITE`)
	Expect(err).NotTo(HaveOccurred())
	return func() { Expect(db.Close()).To(Succeed()) }
}
