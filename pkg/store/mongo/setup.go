package mongo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/shardctl/shardctl/internal/clock"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/dbstore"
)

// schemaVersion is the version of the layout that this program writes.
const schemaVersion = 2

// setup makes a database ready, and finds out what it is.
type setup struct {
	*reader
	problems dbstore.Problems
}

// setUp reaches the database, looks at what it is, and makes what is missing, unless all of it is to exist.
func (s *setup) setUp(ctx context.Context, existing bool) error {
	if err := s.inspect(ctx); err != nil {
		return err
	}
	if existing {
		if err := s.lookAtSchema(ctx); err != nil {
			return err
		}
		return s.identify(ctx, existing)
	}
	if err := s.checkRights(ctx); err != nil {
		return err
	}
	if err := s.checkSchema(ctx); err != nil {
		return err
	}
	if err := s.identify(ctx, existing); err != nil {
		return err
	}
	if err := s.makeIndexes(ctx); err != nil {
		return err
	}
	// The heartbeats' client makes its first connection now, not when a lease hangs on it.
	if err := s.clients().heartbeats.Ping(ctx, nil); err != nil {
		return fmt.Errorf("reach the primary for heartbeats: %w", err)
	}
	return nil
}

// hello is what a server says of itself.
type hello struct {
	Primary   bool          `bson:"isWritablePrimary"`
	SetName   string        `bson:"setName"`
	Msg       string        `bson:"msg"` // isdbgrid: mongos
	Hosts     []string      `bson:"hosts"`
	Passives  []string      `bson:"passives"` // with data, never elected
	Arbiters  []string      `bson:"arbiters"`
	LocalTime bson.DateTime `bson:"localTime"`
}

func (h hello) sharded() bool { return h.Msg == "isdbgrid" }

func (h hello) standalone() bool { return h.SetName == "" && !h.sharded() }

// inspect asks the primary what kind of database this is, and takes the first sample of its clock.
func (s *setup) inspect(ctx context.Context) error {
	h, found, err := s.examine(ctx)
	if err != nil {
		return err
	}
	if s.clients().direct && !h.Primary {
		return fmt.Errorf("%w: URI: directConnection=true leads to a member that is no primary: name all members and "+
			"replicaSet instead", driver.ErrInvalid)
	}
	s.clock.sample(int64(h.LocalTime), time.Now())
	s.standalone = h.standalone()
	s.problems.Looked(found)
	return nil
}

// Look implements [dbstore.Looker].
func (s *setup) Look(ctx context.Context) error {
	_, found, err := s.examine(ctx)
	if err == nil {
		s.problems.Looked(found)
	}
	return err
}

// examine asks the primary what kind of database this is, and finds what operators should know of it.
func (s *setup) examine(ctx context.Context) (h hello, found []driver.Problem, err error) {
	if err := s.clients().client.Database("admin").RunCommand(ctx, bson.D{{Key: "hello", Value: 1}}).Decode(&h); err != nil {
		return h, nil, fmt.Errorf("reach the primary: %w", err)
	}
	if h.standalone() {
		found = append(found, driver.Problem{
			Reason: ReasonStandalone,
			Message: "MongoDB is a standalone server: changes are polled for, and there is one copy of the data. " +
				"Use a replica set.",
		})
	}
	if len(h.Arbiters) > 0 {
		found = append(found, driver.Problem{
			Reason: ReasonArbiter, Message: "the replica set has arbiters (" + strings.Join(h.Arbiters, ", ") +
				"): with one data-bearing member down no majority may hold a write. Use members with data.",
		})
	}
	switch {
	case h.sharded():
		sharding, err := s.inspectSharding(ctx)
		return h, append(found, sharding...), err
	case h.standalone(), s.clients().direct && !h.Primary:
		return h, found, nil
	}
	journalled, err := s.journalDefault(ctx)
	if err != nil {
		return h, nil, fmt.Errorf("see the configuration of the replica set: %w", err)
	}
	if !journalled.Holds {
		found = append(found, driver.Problem{
			Reason: ReasonNotDurable,
			Message: fmt.Sprintf("MongoDB's %s is %s: a crash of several members may lose what "+
				"was read; set it to %s by rs.reconfig", journalled.Name, journalled.Value, journalled.Want),
		})
	}
	return h, found, nil
}

// inspectSharding refuses documents that are sharded in a way that allows two of one ID. Events have no rivals. Where
// the user may not see that, it is one problem for all kinds.
func (s *setup) inspectSharding(ctx context.Context) (found []driver.Problem, err error) {
	for _, info := range driver.Table() {
		if info.Kind == driver.KindEvent {
			continue
		}
		ns := s.database + "." + collectionName(s.cluster, info.Kind)
		unseen, err := s.inspectShardingOf(ctx, ns)
		if err != nil {
			return nil, err
		}
		if unseen && len(found) == 0 {
			found = []driver.Problem{unseenSharding(ns)}
		}
	}
	return found, nil
}

// inspectShardingOf returns true where the user may not see how a collection is sharded.
func (s *setup) inspectShardingOf(ctx context.Context, ns string) (unseen bool, err error) {
	var found struct {
		Key     bson.D `bson:"key"`
		Dropped bool   `bson:"dropped"`
	}
	err = s.clients().client.Database("config").Collection("collections").FindOne(
		ctx, bson.D{{Key: fieldID, Value: ns}},
	).Decode(&found)
	switch {
	case errors.Is(err, mongo.ErrNoDocuments):
		return false, nil // not sharded
	case hasCode(err, codeUnauthorized):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("see how %s is sharded: %w", ns, err)
	case !found.Dropped && !keyedByID(found.Key):
		return false, fmt.Errorf(
			"%w: %s is sharded by %v, want unsharded or by _id: two shards could each hold a document of one ID",
			driver.ErrInvalid, ns, found.Key,
		)
	}
	return false, nil
}

// unseenSharding is the problem of a user who may not see how a collection is sharded.
func unseenSharding(ns string) driver.Problem {
	return driver.Problem{
		Reason: ReasonSharding,
		Message: "cannot see how " + ns + " is sharded (no right to read config.collections): it must be " +
			"unsharded or sharded by _id",
	}
}

// keyedByID says whether a shard key is _id alone, ranged or hashed.
func keyedByID(key bson.D) bool { return len(key) == 1 && key[0].Key == fieldID }

// checkSchema writes the version of the layout where there is none, and refuses another one before anything else is
// touched.
func (s *setup) checkSchema(ctx context.Context) error {
	err := s.readSchema(ctx)
	if !errors.Is(err, mongo.ErrNoDocuments) {
		return err
	}
	schema := s.clients().client.Database(s.database).Collection(s.schemaName())
	_, err = schema.InsertOne(ctx, bson.D{{Key: fieldID, Value: "schema"}, {Key: "version", Value: schemaVersion}})
	switch {
	case mongo.IsDuplicateKeyError(err): // somebody was faster
		return s.readSchema(ctx)
	case err != nil:
		return fmt.Errorf("write the schema's version to %s: %w", s.schemaName(), err)
	}
	return nil
}

// readSchema refuses another layout; without any the error is [mongo.ErrNoDocuments].
func (s *setup) readSchema(ctx context.Context) error {
	var found struct {
		Version int `bson:"version"`
	}
	schema := s.clients().client.Database(s.database).Collection(s.schemaName())
	if err := schema.FindOne(ctx, bson.D{{Key: fieldID, Value: "schema"}}).Decode(&found); err != nil {
		return fmt.Errorf("read the schema's version from %s: %w", s.schemaName(), err)
	}
	return driver.CheckSchema(s.schemaName(), found.Version, schemaVersion)
}

// lookAtSchema is for those who only read: what is not there they do not make.
func (s *setup) lookAtSchema(ctx context.Context) error {
	err := s.readSchema(ctx)
	if errors.Is(err, mongo.ErrNoDocuments) {
		return fmt.Errorf("%w: no replica has set up cluster %s in database %s yet", driver.ErrInvalid, s.cluster,
			s.database)
	}
	return err
}

// fieldOf is where a document has a field.
var fieldOf = map[driver.Field]string{
	driver.FieldID: fieldID, driver.FieldRev: fieldRev, driver.FieldGroup: fieldGroup, driver.FieldSession: fieldSession,
	driver.FieldSuspended: fieldSuspended, driver.FieldExpires: fieldExpires,
}

// indexes of a kind in addition to _id.
func indexes(info driver.KindInfo) []mongo.IndexModel {
	var all []mongo.IndexModel
	for _, fields := range info.Indexes {
		keys := bson.D{}
		for _, f := range fields {
			keys = append(keys, bson.E{Key: fieldOf[f], Value: 1})
		}
		all = append(all, mongo.IndexModel{Keys: keys})
	}
	return all
}

// Codes of createIndexes when others do the same at once.
const (
	codeDuplicateKey          = 11000
	codeNamespaceExists       = 48
	codeIndexOptionsConflict  = 85 // the same keys under another name: just as good
	codeOperationInProgress   = 117
	codeIndexAlreadyExists    = 68
	codeIndexBuildAborted     = 276
	codeDatabaseBeingDropped  = 215
	setUpAttempts             = 5
	pauseBetweenSetUpAttempts = 50 * time.Millisecond
)

// makeIndexes makes the collections and indexes that are missing. Collections are made before a change stream is opened
// on them.
func (s *setup) makeIndexes(ctx context.Context) error {
	db := s.clients().client.Database(s.database)
	there, err := db.ListCollectionNames(
		ctx, bson.D{{Key: "name", Value: bson.D{{Key: "$regex", Value: "^" + s.cluster + `\.`}}}},
	)
	if err != nil {
		return fmt.Errorf("list collections: %w", err)
	}
	for _, info := range driver.Table() {
		name := collectionName(s.cluster, info.Kind)
		missing := indexes(info)
		var err error
		if slices.Contains(there, name) {
			missing, err = missingIndexes(ctx, db.Collection(name), missing)
		} else {
			err = retryConflicts(ctx, func() error { return db.CreateCollection(ctx, name) })
		}
		if err == nil && len(missing) > 0 {
			err = retryConflicts(ctx, func() error {
				_, err := db.Collection(name).Indexes().CreateMany(ctx, missing)
				return err
			})
			if text, is := missingPrivilege(err); is {
				err = fmt.Errorf("%w: index %s is missing, and %s", driver.ErrInvalid, describe(missing), text)
			}
		}
		if err != nil {
			return fmt.Errorf("set up collection %s: %w", name, err)
		}
	}
	return nil
}

// missingIndexes are those wanted on keys that no index of the collection is on. Asking first lets a user do without
// the right to make them who has no need to.
func missingIndexes(
	ctx context.Context, coll *mongo.Collection, wanted []mongo.IndexModel,
) ([]mongo.IndexModel, error) {
	if len(wanted) == 0 {
		return nil, nil
	}
	cursor, err := coll.Indexes().List(ctx)
	if err != nil {
		return nil, err
	}
	var found []struct {
		Key     bson.D `bson:"key"`
		Partial bson.D `bson:"partialFilterExpression"`
		Sparse  bool   `bson:"sparse"`
	}
	if err := cursor.All(ctx, &found); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(wanted), func(w mongo.IndexModel) bool {
		for _, f := range found {
			if f.Partial == nil && !f.Sparse && sameKeys(f.Key, w.Keys.(bson.D)) { //nolint:forcetypeassert // our own
				return true
			}
		}
		return false
	}), nil
}

// sameKeys compares the fields of two ascending indexes. A shell writes 1 as a double.
func sameKeys(found, wanted bson.D) bool {
	return slices.EqualFunc(found, wanted, func(f, w bson.E) bool {
		return f.Key == w.Key && slices.Contains([]any{int32(1), int64(1), float64(1)}, f.Value)
	})
}

// describe names indexes by their fields.
func describe(models []mongo.IndexModel) string {
	var all []string
	for _, m := range models {
		var fields []string
		for _, e := range m.Keys.(bson.D) { //nolint:forcetypeassert // our own
			fields = append(fields, e.Key+": 1")
		}
		all = append(all, "{"+strings.Join(fields, ", ")+"}")
	}
	return strings.Join(all, ", ")
}

// retryConflicts runs a set-up step until it is done, by us or by another process.
func retryConflicts(ctx context.Context, step func() error) error {
	for attempt := 1; ; attempt++ {
		err := step()
		switch {
		case err == nil, hasCode(err, codeNamespaceExists, codeIndexOptionsConflict, codeIndexAlreadyExists):
			return nil
		case attempt == setUpAttempts,
			!hasCode(err, codeOperationInProgress, codeIndexBuildAborted, codeDatabaseBeingDropped):
			return err
		}
		if clock.Sleep(ctx, pauseBetweenSetUpAttempts) != nil {
			return err
		}
	}
}
