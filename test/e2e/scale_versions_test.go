//go:build linux

package e2e_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	_ "modernc.org/sqlite" // the scenarios look into the database, and widen it, themselves

	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/e2e/history"
	. "github.com/shardctl/shardctl/test/e2e/suite"
)

// database is the store as somebody sees it who opens it without shardctl.
type database interface {
	// widen adds a field, or a column, that this version does not know to everything that is there.
	widen(ctx context.Context)
	// bodies are those of all documents of a kind, by id.
	bodies(ctx context.Context, kind string) map[string]string
	// setVersion changes the version of the layout.
	setVersion(ctx context.Context, version int)
}

var laterKinds = []string{"session", "member", "lock", "group", "event", "override", "value"}

var _ = Describe("Versions side by side", Label("faults-scale"), func() {
	EachStore("They", func(store string, uri func() string) {
		const tasks = 12
		var (
			c     *harness.Cluster
			db    database
			later harness.Variant
		)
		BeforeAll(func(ctx SpecContext) {
			at := uri()
			db = openDatabase(store, at)
			c = NewCluster("versions-"+store, harness.Options{StoreURI: at, Tasks: tasks})
			NothingLost(c)
			later = harness.Variant{Program: laterProgram(ctx), Env: []string{"SHARDCTL_TEST_UNKNOWN_FIELDS=1"}}
		}, NodeTimeout(ScenarioTimeout))

		It("hand keys over in both directions, although the later one writes fields that this one does not know",
			func(ctx SpecContext) {
				for i := range 3 {
					start(ctx, c, fmt.Sprintf("this-%d", i+1), harness.Variant{})
				}
				eventuallySpread(ctx, c, tasks)
				db.widen(ctx)
				at := history.Now()
				old := c.Live()
				for i, r := range old { // an update, each step of which is a mix of both
					EventuallyReady(ctx, start(ctx, c, fmt.Sprintf("later-%d", i+1), later))
					stopOrderly(ctx, r)
				}
				eventuallySpread(ctx, c, tasks)
				upgraded := history.Now()
				for _, kind := range []string{"session", "member", "lock", "event"} {
					Expect(unknownIn(db.bodies(ctx, kind))).NotTo(
						BeZero(), "the later version's fields are in the documents: %s", kind,
					)
				}
				db.widen(ctx)

				By("going back to this version, with a kill -9 of the last of the later ones")
				newer := c.Live()
				for i, r := range newer {
					EventuallyReady(ctx, start(ctx, c, fmt.Sprintf("again-%d", i+1), harness.Variant{}))
					if i < len(newer)-1 {
						stopOrderly(ctx, r)
						continue
					}
					at, keys := killAll(c, []*harness.Replica{r})
					last := EventuallyTaken(c, keys, at)
					ExpectWithin(c, Lease+AfterLease, at, last, "the last key elsewhere")
				}
				eventuallySpread(ctx, c, tasks)
				h := Load(c)
				there, back := len(h.Started(at, upgraded)), len(h.Started(upgraded, history.Now()))
				Figure(store, "this version beside one that writes unknown fields into every document: %d moves to the "+
					"later one, %d back, gaps %s", there, back, gapsSince(h, at))
				for _, r := range c.Live() {
					Expect(r.Log()).NotTo(ContainSubstring("cannot be read"), "unknown fields are not malformed")
				}
				Expect(unknownIn(db.bodies(ctx, "lock"))).To(
					BeZero(),
					"every replica that writes a document writes it whole: see docs/operations/upgrade-and-backup.md",
				)
				ExpectOneRunEach(c)
			}, SpecTimeout(ScenarioTimeout))

		// A field that must not be lost, or a meaning that has changed, is a new layout.
		It("refuse a newer layout with a clear word, and touch nothing", func(ctx SpecContext) {
			before := history.Now()
			db.setVersion(ctx, 99)
			r := start(ctx, c, "refused", harness.Variant{})
			ended, err := r.Wait(ctx)
			Expect(err).NotTo(HaveOccurred())
			Expect(ended.ExitCode()).To(Equal(78), r.Log())
			Expect(r.Log()).To(And(ContainSubstring("another schema"), ContainSubstring("99")))
			Expect(db.bodies(ctx, "member")).NotTo(ContainElement(ContainSubstring("refused")), "it did not join")
			Expect(Load(c).Started(before, history.Now())).To(BeEmpty(), "who was there goes on")
			db.setVersion(ctx, 2)
			EventuallyReady(ctx, start(ctx, c, "accepted", harness.Variant{}))
			eventuallySpread(ctx, c, tasks)
			ExpectOneRunEach(c)
		}, SpecTimeout(ScenarioTimeout))
	}, NightlyOn("mongodb"), Ordered)
})

// unknownIn counts the bodies that hold a field of the later version.
func unknownIn(bodies map[string]string) int {
	n := 0
	for id, body := range bodies {
		if body == "" {
			continue
		}
		fields := map[string]json.RawMessage{}
		Expect(json.Unmarshal([]byte(body), &fields)).To(Succeed(), id)
		if fields["later"] != nil {
			n++
		}
	}
	return n
}

func openDatabase(store, uri string) database {
	GinkgoHelper()
	if store == "sqlite" {
		return sqliteFile{strings.TrimPrefix(uri, "sqlite:")}
	}
	client, err := mongo.Connect(options.Client().ApplyURI(uri))
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) { _ = client.Disconnect(ctx) })
	name := uri[strings.LastIndex(uri, "/")+1:]
	name, _, _ = strings.Cut(name, "?")
	return mongoDatabase{client.Database(name)}
}

type mongoDatabase struct{ db *mongo.Database }

func (m mongoDatabase) widen(ctx context.Context) {
	GinkgoHelper()
	for _, kind := range laterKinds {
		set := bson.D{{Key: "$set", Value: bson.D{
			{Key: "later", Value: bson.D{{Key: "deep", Value: bson.A{1, "two", nil}}}},
			{Key: "writer.later", Value: 1.5},
		}}}
		_, err := m.of(kind).UpdateMany(ctx, bson.D{}, set)
		Expect(err).NotTo(HaveOccurred())
	}
}

func (m mongoDatabase) bodies(ctx context.Context, kind string) map[string]string {
	GinkgoHelper()
	cursor, err := m.of(kind).Find(ctx, bson.D{})
	Expect(err).NotTo(HaveOccurred())
	var docs []struct {
		ID   string `bson:"_id"`
		Body string `bson:"body"`
	}
	Expect(cursor.All(ctx, &docs)).To(Succeed())
	bodies := map[string]string{}
	for _, d := range docs {
		bodies[d.ID] = d.Body
	}
	return bodies
}

func (m mongoDatabase) setVersion(ctx context.Context, version int) {
	GinkgoHelper()
	res, err := m.db.Collection("e2e.schema").UpdateMany(
		ctx, bson.D{}, bson.D{{Key: "$set", Value: bson.D{{Key: "version", Value: version}}}},
	)
	Expect(err).NotTo(HaveOccurred())
	Expect(res.ModifiedCount).To(BeEquivalentTo(1))
}

func (m mongoDatabase) of(kind string) *mongo.Collection {
	return m.db.Collection("e2e." + kind + "s")
}

type sqliteFile struct{ path string }

// do opens the file and closes it again: this process keeps none of its locks.
func (f sqliteFile) do(ctx context.Context, do func(db *sql.DB)) {
	GinkgoHelper()
	db, err := sql.Open("sqlite", f.path+"?_pragma=busy_timeout(20000)&_pragma=journal_mode(wal)")
	Expect(err).NotTo(HaveOccurred())
	Expect(db.PingContext(ctx)).To(Succeed())
	do(db)
	Expect(db.Close()).To(Succeed())
}

func (f sqliteFile) widen(ctx context.Context) {
	GinkgoHelper()
	f.do(ctx, func(db *sql.DB) {
		for _, kind := range laterKinds {
			for _, text := range []string{
				`ALTER TABLE "e2e_%ss" ADD COLUMN later TEXT NOT NULL DEFAULT 'nothing'`,
				`UPDATE "e2e_%ss" SET later = 'something'`,
			} {
				_, err := db.ExecContext(ctx, fmt.Sprintf(text, kind))
				if err != nil && strings.Contains(err.Error(), "duplicate column") {
					continue // it was widened before
				}
				Expect(err).NotTo(HaveOccurred())
			}
		}
	})
}

func (f sqliteFile) bodies(ctx context.Context, kind string) map[string]string {
	GinkgoHelper()
	bodies := map[string]string{}
	f.do(ctx, func(db *sql.DB) {
		rows, err := db.QueryContext(ctx, fmt.Sprintf(`SELECT id, body FROM "e2e_%ss"`, kind))
		Expect(err).NotTo(HaveOccurred())
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			var id, body string
			Expect(rows.Scan(&id, &body)).To(Succeed())
			bodies[id] = body
		}
		Expect(rows.Err()).NotTo(HaveOccurred())
	})
	return bodies
}

func (f sqliteFile) setVersion(ctx context.Context, version int) {
	GinkgoHelper()
	f.do(ctx, func(db *sql.DB) {
		_, err := db.ExecContext(ctx, `UPDATE "e2e_schema" SET version = ?`, version)
		Expect(err).NotTo(HaveOccurred())
	})
}
