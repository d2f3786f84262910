package mongo_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/shardctl/shardctl/pkg/store/driver"
	mongostore "github.com/shardctl/shardctl/pkg/store/mongo"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/testmongo"
)

const password = "s3cret&pass/w0rd"

// guarded is a set that asks for passwords. Each tenant of it has a database of its own.
type guarded struct{ rs *testmongo.ReplicaSet }

// tenants is how many there were.
var tenants atomic.Int64

// A tenant is a database with users of its own, as the docs have them made.
type tenant struct {
	name string
	uri  string // of the user replica, who logs in to its own database
	root *mongo.Database
}

// tenant makes a database's user with the privileges given.
func (g *guarded) tenant(t *testing.T, privileges []privilege) *tenant {
	t.Helper()
	name := fmt.Sprint("tenant", tenants.Add(1))
	d := &tenant{
		name: name,
		uri: strings.Replace(
			testmongo.WithDatabase(g.rs.URIAs("replica", password), name), "authSource=admin", "authSource="+name, 1,
		),
		root: rawDatabase(t, testmongo.WithDatabase(g.rs.RootURI(), name)),
	}
	d.run(t, bson.D{
		{Key: "createRole", Value: "role"},
		{Key: "privileges", Value: d.privileges(privileges)},
		{Key: "roles", Value: bson.A{}},
	})
	d.run(t, bson.D{
		{Key: "createUser", Value: "replica"}, {Key: "pwd", Value: password}, {Key: "roles", Value: bson.A{"role"}},
	})
	return d
}

func (d *tenant) run(t *testing.T, commands ...bson.D) {
	t.Helper()
	for _, c := range commands {
		must(t, d.root.RunCommand(t.Context(), c).Err())
	}
}

// grant changes what the user may do, while it is logged in.
func (d *tenant) grant(t *testing.T, privileges []privilege) {
	t.Helper()
	d.run(t, bson.D{{Key: "updateRole", Value: "role"}, {Key: "privileges", Value: d.privileges(privileges)}})
}

func (d *tenant) privileges(privileges []privilege) bson.A {
	all := bson.A{}
	for _, p := range privileges {
		all = append(
			all, bson.M{"resource": bson.M{"db": d.name, "collection": p.collection}, "actions": bson.A{p.action}},
		)
	}
	return all
}

func (d *tenant) options() mongostore.Options {
	return mongostore.Options{URI: d.uri, Timeout: patient}
}

func without(all []privilege, p privilege) []privilege {
	return slices.DeleteFunc(slices.Clone(all), func(other privilege) bool { return other == p })
}

// guardedSet is the one set of this package that asks for passwords.
func guardedSet(t *testing.T) *guarded {
	t.Helper()
	return &guarded{rs: testmongo.SharedAs(t, "mongodb with passwords", testmongo.Options{Auth: true})}
}

// What the docs say is enough, is (see also TestStore); and each part of it is needed, and named when it is missing.
func TestRoles(t *testing.T) {
	g := guardedSet(t)
	running := privilegesOf(t, documented(t, "role: shardctl", "any")[0])
	settingUp := privilegesOf(t, documented(t, "role: shardctlSetUp", "any")[0])
	reading := privilegesOf(t, documented(t, "role: shardctlRead", "any")[0])
	both := slices.Concat(running, settingUp)

	t.Run("documented commands", func(t *testing.T) { testDocumentedCommands(t, g) })
	t.Run("nothing to make", func(t *testing.T) { testNothingToMake(t, g, running) })
	t.Run("missing to run", func(t *testing.T) { testMissingToRun(t, g, running) })
	t.Run("missing to set up", func(t *testing.T) { testMissingToSetUp(t, g, running, settingUp) })
	t.Run("taken away", func(t *testing.T) { testTakenAway(t, g, both) })
	t.Run("reader", func(t *testing.T) { testReader(t, g, both, reading) })
	t.Run("built-in roles", func(t *testing.T) { testBuiltIn(t, g) })
	t.Run("log-in", func(t *testing.T) { testLogIn(t, g, both) })
}

// testDocumentedCommands has MongoDB take the commands as they stand.
func testDocumentedCommands(t *testing.T, g *guarded) {
	t.Helper()
	d := g.tenant(t, nil)
	for _, marker := range []string{"role: shardctl", "role: shardctlSetUp", "role: shardctlRead"} {
		d.run(t, documented(t, marker, d.name)...)
	}
	d.run(t, bson.D{{Key: "updateUser", Value: "replica"}, {Key: "roles", Value: bson.A{"shardctl", "shardctlSetUp"}}})
	s := storetest.Open(t, d.options())
	var w writer
	apply(t, s, patient, driver.Applied, w.put(lock("g/a"), 0))
}

// testNothingToMake starts without the right to make anything, on what the docs have an operator make, and makes
// nothing.
func testNothingToMake(t *testing.T, g *guarded, running []privilege) {
	t.Helper()
	d := g.tenant(t, running)
	d.run(t, documented(t, "commands: set-up", d.name)...)
	before := d.indexes(t)
	s := storetest.Open(t, d.options())
	var w writer
	for _, kind := range driver.Kinds() {
		apply(t, s, patient, driver.Applied, w.put(driver.Doc{Kind: kind, ID: "x"}, 0))
	}
	if after := d.indexes(t); after != before {
		t.Errorf("indexes were\n%s\nand are\n%s", before, after)
	}
	made := g.tenant(t, nil) // what the program makes itself must be the same
	storetest.Open(t, driver.Config{URI: testmongo.WithDatabase(g.rs.RootURI(), made.name)})
	if own := made.indexes(t); own != before {
		t.Errorf("the docs make\n%s\nand the program\n%s", before, own)
	}
}

// indexes lists collections and indexes, one a line.
func (d *tenant) indexes(t *testing.T) string {
	t.Helper()
	names, err := d.root.ListCollectionNames(t.Context(), bson.D{})
	must(t, err)
	slices.Sort(names)
	var b strings.Builder
	for _, name := range names {
		specs, err := d.root.Collection(name).Indexes().ListSpecifications(t.Context())
		must(t, err)
		for _, s := range specs {
			fmt.Fprintln(&b, name, s.Name, s.KeysDocument)
		}
	}
	return b.String()
}

// wantRefusal wants the start to be refused, soon, by an error that names what is missing and no password.
func wantRefusal(t *testing.T, opts mongostore.Options, names ...string) {
	t.Helper()
	_, err := mongostore.Open(t.Context(), opts)
	storetest.WantError(t, err, driver.ErrInvalid, names...)
	if err != nil {
		wantNoPassword(t, err)
	}
}

func wantNoPassword(t *testing.T, err error) {
	t.Helper()
	for _, secret := range []string{password, "s3cret", "w0rd"} {
		if strings.Contains(err.Error(), secret) {
			t.Errorf("the password is in the error: %v", err)
		}
	}
}

func testMissingToRun(t *testing.T, g *guarded, running []privilege) {
	t.Helper()
	d := g.tenant(t, running)
	d.run(t, documented(t, "commands: set-up", d.name)...)
	for _, p := range running {
		t.Run(p.action+" on "+p.collection, func(t *testing.T) {
			d.grant(t, without(running, p))
			where := "database " + d.name
			if p.collection != "" {
				where = d.name + "." + p.collection
			}
			wantRefusal(t, d.options(), "user replica of database "+d.name+" lacks privileges", p.action, where)
		})
	}
	d.grant(t, running)
	storetest.Open(t, d.options())
}

func testMissingToSetUp(t *testing.T, g *guarded, running, settingUp []privilege) {
	t.Helper()
	for _, p := range settingUp {
		t.Run(p.action+" on "+p.collection, func(t *testing.T) {
			d := g.tenant(t, slices.Concat(running, without(settingUp, p)))
			wantRefusal(t, d.options(), "lacks the privilege", p.action, d.name+"."+p.collection)
		})
	}
}

// testTakenAway takes privileges from a store in use: each call fails by itself, soon, and says what it lacks, until it
// is given back.
func testTakenAway(t *testing.T, g *guarded, both []privilege) {
	t.Helper()
	d := g.tenant(t, both)
	s := storetest.Open(t, d.options())
	var w writer
	session := w.put(driver.Doc{Kind: driver.KindSession, ID: "s1", State: "live", Count: 1}, 0)
	apply(t, s, patient, driver.Applied, session, w.put(lock("g/a"), 0))
	increment := driver.Change{Op: driver.Increment, Doc: driver.Doc{Kind: driver.KindGroup, ID: "g"}}
	write := func(c driver.Change) func(ctx context.Context) error {
		return func(ctx context.Context) error {
			out, err := s.Apply(ctx, c)
			if err == nil && out[0].Status != driver.Unknown {
				err = fmt.Errorf("the outcome is %v, want unknown", out[0].Status)
			}
			if err == nil {
				err = out[0].Err
			}
			return err
		}
	}
	for _, tc := range []struct {
		lost privilege
		try  func(ctx context.Context) error
		want string
	}{
		{
			privilege{"default.sessions", "update"},
			write(w.put(session.Doc, 1)),
			"update on " + d.name + ".default.sessions",
		},
		{
			privilege{"default.sessions", "remove"},
			write(driver.Change{Op: driver.Delete, IfRev: 1, Doc: session.Doc}),
			"remove on " + d.name + ".default.sessions",
		},
		{privilege{"default.locks", "insert"}, write(w.put(lock("g/b"), 0)), "insert on " + d.name + ".default.locks"},
		{privilege{"default.groups", "insert"}, write(increment), "update and insert on " + d.name + ".default.groups"},
		{privilege{"", "find"}, func(ctx context.Context) error {
			_, err := s.List(ctx, driver.KindLock, driver.Query{})
			return err
		}, "find on " + d.name + ".default.locks"},
		{privilege{"", "find"}, func(ctx context.Context) error {
			_, err := s.List(ctx, driver.KindLock, driver.Query{CountOnly: true})
			return err
		}, "find on " + d.name + ".default.locks"},
		{privilege{"", "changeStream"}, func(ctx context.Context) error {
			_, err := s.Watch(ctx, driver.Interest{Session: "me"})
			return err
		}, "find and changeStream on database " + d.name},
	} {
		t.Run(tc.lost.action+" on "+tc.lost.collection, func(t *testing.T) {
			d.grant(t, without(both, tc.lost))
			began := time.Now()
			err := tc.try(t.Context())
			if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("%v, want ErrInvalid that says: %s", err, tc.want)
			}
			wantNoPassword(t, err)
			if took := time.Since(began); took > patient/2 {
				t.Errorf("it took %s", took)
			}
			t.Log(err)
		})
	}
	d.grant(t, both)
	apply(t, s, patient, driver.Applied, w.put(session.Doc, 1))

	// A password that is changed counts when somebody logs in: not for connections that are open.
	d.run(t, bson.D{{Key: "updateUser", Value: "replica"}, {Key: "pwd", Value: "another"}})
	apply(t, s, patient, driver.Applied, w.put(session.Doc, 2))
	wantRefusal(t, d.options(), "the log-in failed")
}

// testReader reads as a user who may do nothing else; so nothing is made on the way.
func testReader(t *testing.T, g *guarded, both, reading []privilege) {
	t.Helper()
	d := g.tenant(t, both)
	storetest.Rights{
		Writer: d.options(), Reader: d.options(), Grant: func() { d.grant(t, reading) },
	}.Run(t)
	wantRefusal(
		t, d.options(), "insert, update on "+d.name+".default.locks", "remove on "+d.name+".default.events",
		"changeStream on database",
	)

	empty := g.tenant(t, reading)
	opts := empty.options()
	opts.Existing = true
	if _, err := mongostore.Open(t.Context(), opts); err == nil ||
		!strings.Contains(err.Error(), "no replica has set up cluster default in database "+empty.name) {
		t.Errorf("an empty database: %v", err)
	}
	if made := empty.indexes(t); made != "" {
		t.Errorf("looking made\n%s", made)
	}
}

func testBuiltIn(t *testing.T, g *guarded) {
	t.Helper()
	anyDatabase := bson.M{"role": "readWriteAnyDatabase", "db": "admin"}
	for name, tc := range map[string]struct {
		role   any
		enough bool
	}{
		"readWrite": {"readWrite", true}, "dbOwner": {"dbOwner", true}, "readWriteAnyDatabase": {anyDatabase, true},
		"read": {"read", false},
	} {
		t.Run(name, func(t *testing.T) {
			d := g.tenant(t, nil)
			d.run(t, bson.D{{Key: "updateUser", Value: "replica"}, {Key: "roles", Value: bson.A{tc.role}}})
			if tc.enough {
				storetest.Open(t, d.options())
				return
			}
			wantRefusal(t, d.options(), "lacks privileges", "insert, update on")
		})
	}
}

// testLogIn is what can be wrong before any privilege counts, on a replica set, whose driver connects in other ways
// than to a single server.
func testLogIn(t *testing.T, g *guarded, both []privilege) {
	t.Helper()
	d := g.tenant(t, both)
	for name, tc := range map[string]struct{ uri, says string }{
		"wrong password": {
			strings.Replace(d.uri, "s3cret", "wr0ng-s3cret", 1), "the log-in failed: wrong user or password",
		},
		"unknown user": {
			strings.Replace(d.uri, "//replica:", "//absent:", 1), "the log-in failed: wrong user or password",
		},
		"other database": {
			strings.Replace(d.uri, "authSource="+d.name, "authSource=admin", 1),
			"a user of another database (authSource in the URI)",
		},
		"no log-in": {testmongo.WithDatabase(g.rs.URI(), d.name), "requires authentication"},
	} {
		t.Run(name, func(t *testing.T) {
			wantRefusal(t, mongostore.Options{URI: tc.uri, Timeout: patient}, tc.says)
		})
	}
	t.Run("no rights at all", func(t *testing.T) {
		d.grant(t, nil)
		wantRefusal(
			t, d.options(), "lacks privileges: listCollections, listIndexes, find, changeStream on database "+d.name,
		)
	})
}
