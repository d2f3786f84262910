package mongo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/shardctl/shardctl/internal/clock"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/dbstore"
)

// awaitEvents is how long the server holds a request for events when there are none.
const awaitEvents = 5 * time.Second

// Tail implements [dbstore.Watcher] by one change stream on the database. The server filters it: heartbeats, and locks
// that do not concern this watcher, never come over the network. A stream that breaks is resumed by the driver without
// loss where it can be.
func (b *backend) Tail(ctx context.Context, in driver.Interest, begun func(), emit func(dbstore.Event)) error {
	if b.standalone {
		return fmt.Errorf("%w: MongoDB is a standalone server", driver.ErrCannotWatch)
	}
	opening, opened := context.WithTimeout(ctx, b.timeout)
	defer opened()
	opts := options.ChangeStream().SetFullDocument(options.UpdateLookup).SetMaxAwaitTime(awaitEvents)
	stream, err := b.clients().client.Database(b.database).Watch(opening, b.pipeline(in), opts)
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), b.timeout)
		defer cancel()
		_ = stream.Close(closing)
	}()
	if err := b.same(opening, b.clients(), driver.KindGroup); err != nil {
		return err
	}
	begun()
	var remaking sync.WaitGroup
	defer remaking.Wait()
	while, end := context.WithCancel(ctx)
	defer end()
	remaking.Go(func() { b.remake(while) })
	return b.follow(ctx, stream, emit)
}

// pipeline filters events on the server. Only Increments are updates, so only they are looked up; inserts and
// replacements carry the document.
func (b *backend) pipeline(in driver.Interest) mongo.Pipeline {
	wanted := bson.A{where("operationType", "$in", "drop", "rename", "dropDatabase", "invalidate")}
	for _, info := range driver.Table() {
		if !in.WantsKind(info.Kind) {
			continue
		}
		for _, condition := range conditions(info, in) {
			wanted = append(
				wanted, append(bson.D{{Key: "ns.coll", Value: collectionName(b.cluster, info.Kind)}}, condition...),
			)
		}
	}
	return mongo.Pipeline{{{Key: "$match", Value: bson.D{{Key: "$or", Value: wanted}}}}}
}

// conditions say which events of a kind's collection a watcher wants, any of them.
func conditions(info driver.KindInfo, in driver.Interest) []bson.D {
	switch info.Notify {
	case driver.NotifyStates:
		// A heartbeat replaces a live session by a live one; it is what must not come.
		return []bson.D{
			where("operationType", "$in", "insert", "delete"),
			where("fullDocument.state", "$nin", driver.StateLive, nil),
		}
	case driver.NotifyFree:
		var all []bson.D
		if in.Session != "" {
			all = append(all, where("fullDocument.next", "$in", in.Session))
		}
		if len(in.Keys) > 0 {
			keys := where("documentKey._id", "$in", anys(in.Keys)...)
			all = append(all, append(where("fullDocument.session", "$in", ""), keys...),
				append(where("operationType", "$in", "delete"), keys...),
				append(where("fullDocument.next", "$gt", ""), keys...))
		}
		return all
	case driver.NotifyAlways, driver.NotifyNever:
	}
	switch {
	case in.Groups == nil:
		return []bson.D{{}}
	case info.Kind == driver.KindGroup:
		return []bson.D{where("documentKey._id", "$in", anys(in.Groups)...)}
	default:
		return []bson.D{where("fullDocument.group", "$in", append(anys(in.Groups), nil)...)}
	}
}

// where compares a field of an event: with one value, or with several where the operator takes a list.
func where(field, op string, values ...any) bson.D {
	var value any = bson.A(values)
	if op == "$gt" {
		value = values[0]
	}
	return bson.D{{Key: field, Value: bson.D{{Key: op, Value: value}}}}
}

func anys(texts []string) []any {
	all := make([]any, len(texts))
	for i, text := range texts {
		all[i] = text
	}
	return all
}

// event is what is used of a change event.
type event struct {
	Operation string `bson:"operationType"`
	Namespace struct {
		Collection string `bson:"coll"`
	} `bson:"ns"`
	To struct {
		Collection string `bson:"coll"`
	} `bson:"to"` // of a rename
	Key struct {
		ID bson.RawValue `bson:"_id"`
	} `bson:"documentKey"`
	Document bson.Raw `bson:"fullDocument"`
}

// follow emits events until ctx ends or the stream breaks.
func (b *backend) follow(ctx context.Context, stream *mongo.ChangeStream, emit func(dbstore.Event)) error {
	kinds := map[string]driver.Kind{}
	for _, k := range driver.Kinds() {
		kinds[collectionName(b.cluster, k)] = k
	}
	for {
		e, err := b.next(ctx, stream)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		kind, ours := kinds[e.Namespace.Collection]
		if slices.Contains([]string{"drop", "rename", "dropDatabase"}, e.Operation) {
			b.doubt()
		}
		_, replaced := kinds[e.To.Collection]
		if e.Operation == "dropDatabase" || ours && (e.Operation == "drop" || e.Operation == "rename") || replaced {
			b.markDropped()
		}
		if one, ok := noted(kind, e); (ours || replaced) && ok {
			emit(one)
		}
	}
}

// markDropped says that collections or indexes may be missing.
func (b *backend) markDropped() {
	select {
	case b.dropped <- struct{}{}:
	default: // it is known
	}
}

const (
	// remakeTimeout bounds one attempt. No lease hangs on it, and several replicas make the same indexes at once.
	remakeTimeout = 10 * time.Second
	remakePause   = time.Second
)

// remake makes collections and indexes again whenever somebody dropped some, until ctx ends: they come back by
// themselves with the next write, but without what keeps searches short. A stream may end with what it watched: what is
// left undone then is done beside the next one.
func (b *backend) remake(ctx context.Context) {
	for {
		select {
		case <-b.dropped:
		case <-ctx.Done():
			return
		}
		if b.tryRemake(ctx) {
			continue
		}
		b.markDropped()
		if clock.Sleep(ctx, remakePause) != nil {
			return
		}
	}
}

// tryRemake says whether all is there, or another try does not help.
func (b *backend) tryRemake(ctx context.Context) (over bool) {
	attempt, cancel := context.WithTimeout(ctx, remakeTimeout)
	defer cancel()
	if errors.Is(b.same(attempt, b.clients(), driver.KindGroup), driver.ErrOther) {
		return false // nothing is made in the place of the store
	}
	b.log.Info("A collection was dropped or renamed: making what is missing")
	err := b.makeIndexes(attempt)
	if err == nil || ctx.Err() != nil {
		return err == nil
	}
	lasting := b.causes.Lasting(err)
	err = b.causes.Translate("make dropped collections again", err)
	if lasting {
		b.log.Error(err, "Searches in the store may be slow until a restart")
	} else {
		b.log.Error(err, "Searches in the store may be slow until it can: trying again", "duration", remakePause)
	}
	return lasting
}

// errInvalidated says that what is watched was dropped or renamed.
var errInvalidated = errors.New("a collection was dropped or renamed")

// next waits for the next event. Each request to the server has a limit, since a server that is cut off never answers.
func (b *backend) next(ctx context.Context, stream *mongo.ChangeStream) (event, error) {
	for {
		got, err := func() (bool, error) {
			ctx, cancel := context.WithTimeout(ctx, awaitEvents+max(b.timeout, minConnectTimeout))
			defer cancel()
			return stream.TryNext(ctx), stream.Err()
		}()
		switch {
		case err != nil:
			return event{}, err
		case !got && stream.ID() == 0:
			return event{}, errInvalidated
		case !got:
			continue
		}
		var e event
		if err := stream.Decode(&e); err != nil {
			return event{}, fmt.Errorf("read an event: %w", err)
		}
		return e, nil
	}
}

// noted is what watchers are notified of; ok is false for events that are nothing of that.
func noted(kind driver.Kind, e event) (n dbstore.Event, ok bool) {
	switch e.Operation {
	case "insert", "replace", "update", "delete":
	default: // dropped or renamed: what was known may be gone
		return dbstore.Event{Resync: true}, true
	}
	n.About.Kind = kind
	n.About.ID, ok = e.Key.ID.StringValueOK()
	if len(e.Document) > 0 {
		if d, _ := decode(kind, e.Document); d.ID != "" {
			n.Doc, n.About = &d, d
		}
	}
	return n, ok
}
