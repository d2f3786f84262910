package mongo

import (
	"context"
	"fmt"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/shardctl/shardctl/pkg/store/driver"
)

// Inspect says which MongoDB this is and how its writes become durable. Any user may ask for all of it. See
// [store.Inspect].
//
// The concerns are those of the store's own connections: no default of the server, and no option of the URI, changes
// them. A write with j: true is journalled by every member that counts towards the majority (MongoDB's manual, "Write
// Concern"). A server without a journal refuses it.
func (b *backend) Inspect(ctx context.Context) (driver.Inspection, error) {
	var build struct {
		Version string `bson:"version"`
	}
	admin := b.clients().client.Database("admin")
	if err := admin.RunCommand(ctx, bson.D{{Key: "buildInfo", Value: 1}}).Decode(&build); err != nil {
		return driver.Inspection{}, err
	}
	var h hello
	if err := admin.RunCommand(ctx, bson.D{{Key: "hello", Value: 1}}).Decode(&h); err != nil {
		return driver.Inspection{}, err
	}
	settings := h.settings()
	if !h.sharded() && !h.standalone() {
		journalled, err := b.journalDefault(ctx)
		if err != nil {
			return driver.Inspection{}, err
		}
		settings = append(settings, journalled)
	}
	return driver.Inspection{
		Server: "MongoDB " + build.Version,
		Settings: append(settings,
			driver.Setting{Name: "writeConcern", Value: "majority, j: true (set by shardctl)", Holds: true},
			driver.Setting{Name: "readConcern", Value: b.readConcern().Level + " (set by shardctl)", Holds: true},
		),
	}, nil
}

// journalDefault is the set's writeConcernMajorityJournalDefault. Without it a majority may not have on disk what reads
// show. Not every user may see it.
func (s *setup) journalDefault(ctx context.Context) (driver.Setting, error) {
	const name = "writeConcernMajorityJournalDefault"
	var reply struct {
		Config struct {
			Journalled *bool `bson:"writeConcernMajorityJournalDefault"` // nil: true
		} `bson:"config"`
	}
	err := s.clients().client.Database("admin").RunCommand(ctx, bson.D{{Key: "replSetGetConfig", Value: 1}}).Decode(&reply)
	if hasCode(err, codeUnauthorized) {
		return driver.Setting{Name: name, Value: "not shown to this user", Holds: true}, nil
	}
	holds := reply.Config.Journalled == nil || *reply.Config.Journalled
	return driver.Setting{Name: name, Value: strconv.FormatBool(holds), Want: "true", Holds: holds, Forgets: true}, err
}

// settings are what the set-up of the servers has to do with durability.
func (h hello) settings() []driver.Setting {
	if h.sharded() {
		return []driver.Setting{{
			Name: "topology", Value: "sharded cluster", Want: "replica set or sharded",
			Holds: true,
		}}
	}
	if h.standalone() {
		return []driver.Setting{{Name: "topology", Value: "standalone server", Want: "replica set or sharded"}}
	}
	arbiters := len(h.Arbiters)
	return []driver.Setting{
		{
			Name: "topology", Value: fmt.Sprintf("replica set %s", h.SetName), Want: "replica set or sharded",
			Holds: true,
		},
		{Name: "members with data", Value: strconv.Itoa(len(h.Hosts) + len(h.Passives)), Holds: true},
		{Name: "arbiters", Value: strconv.Itoa(arbiters), Want: "0", Holds: arbiters == 0},
	}
}
