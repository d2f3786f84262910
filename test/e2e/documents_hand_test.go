//go:build linux

package e2e_test

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/connstring"
)

// hand is somebody with a shell open on the database. Fields have the names that MongoDB knows them by.
type hand interface {
	// edit sets fields of one document, whatever they were, and says whether the database let it: tables refuse some
	// malformed text.
	edit(ctx context.Context, kind, id string, fields object) bool
	// raise adds to its revision, as an edit that minds the others would.
	raise(ctx context.Context, kind, id string, by int64)
	insert(ctx context.Context, kind string, doc object) bool
	read(ctx context.Context, kind, id string) object // nil when it is not there
	ids(ctx context.Context, kind string) []string
	remove(ctx context.Context, kind, id string)
	// clear drops the collection, or deletes all rows.
	clear(ctx context.Context, kind string)
}

// editedKinds are all collections and tables.
var editedKinds = []string{"session", "member", "lock", "value", "group", "override", "event"}

// unset stands for a field that is not there.
type unset struct{}

// edited is the name that the harness gives to all clusters.
const edited = "e2e"

// mongoHand writes to MongoDB.
type mongoHand struct{ db *mongo.Database }

func newMongoHand(uri string) hand {
	GinkgoHelper()
	cs, err := connstring.ParseAndValidate(uri)
	Expect(err).NotTo(HaveOccurred())
	client, err := mongo.Connect(options.Client().ApplyURI(uri))
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx context.Context) { _ = client.Disconnect(ctx) })
	return mongoHand{client.Database(cs.Database)}
}

func (h mongoHand) of(kind string) *mongo.Collection {
	return h.db.Collection(edited + "." + kind + "s")
}

func (h mongoHand) edit(ctx context.Context, kind, id string, fields object) bool {
	GinkgoHelper()
	set, gone := bson.M{}, bson.M{}
	for name, value := range fields {
		if _, ok := value.(unset); ok {
			gone[name] = ""
		} else {
			set[name] = value
		}
	}
	update := bson.M{}
	if len(set) > 0 {
		update["$set"] = set
	}
	if len(gone) > 0 {
		update["$unset"] = gone
	}
	res, err := h.of(kind).UpdateOne(ctx, bson.M{"_id": id}, update)
	Expect(err).NotTo(HaveOccurred())
	Expect(res.MatchedCount).To(BeEquivalentTo(1), "%s %s is not there", kind, id)
	return true
}

func (h mongoHand) raise(ctx context.Context, kind, id string, by int64) {
	GinkgoHelper()
	_, err := h.of(kind).UpdateOne(ctx, bson.M{"_id": id}, bson.M{"$inc": bson.M{"rev": by}})
	Expect(err).NotTo(HaveOccurred())
}

func (h mongoHand) insert(ctx context.Context, kind string, doc object) bool {
	GinkgoHelper()
	_, err := h.of(kind).ReplaceOne(ctx, bson.M{"_id": doc["_id"]}, doc, options.Replace().SetUpsert(true))
	Expect(err).NotTo(HaveOccurred())
	return true
}

func (h mongoHand) read(ctx context.Context, kind, id string) object {
	GinkgoHelper()
	var doc object
	err := h.of(kind).FindOne(ctx, bson.M{"_id": id}).Decode(&doc)
	if err != nil {
		Expect(err).To(MatchError(mongo.ErrNoDocuments))
	}
	return doc
}

func (h mongoHand) ids(ctx context.Context, kind string) []string {
	GinkgoHelper()
	cursor, err := h.of(kind).Find(ctx, bson.M{"_id": bson.M{"$type": "string"}})
	Expect(err).NotTo(HaveOccurred())
	var docs []struct {
		ID string `bson:"_id"`
	}
	Expect(cursor.All(ctx, &docs)).To(Succeed())
	var ids []string
	for _, d := range docs {
		ids = append(ids, d.ID)
	}
	return ids
}

func (h mongoHand) remove(ctx context.Context, kind, id string) {
	GinkgoHelper()
	_, err := h.of(kind).DeleteOne(ctx, bson.M{"_id": id})
	Expect(err).NotTo(HaveOccurred())
}

func (h mongoHand) clear(ctx context.Context, kind string) {
	GinkgoHelper()
	Expect(h.of(kind).Drop(ctx)).To(Succeed())
}

// indexes are the fields of a collection's indexes.
func (h mongoHand) indexes(ctx context.Context, kind string) string {
	GinkgoHelper()
	specs, err := h.of(kind).Indexes().ListSpecifications(ctx)
	Expect(err).NotTo(HaveOccurred())
	var names []string
	for _, spec := range specs {
		names = append(names, spec.Name)
	}
	return strings.Join(names, " ")
}
