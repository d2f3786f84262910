package mongo

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/internal/adapter"
)

// awaitEvents is how long the server holds a request for events when there are none.
const awaitEvents = 5 * time.Second

// Watch opens one change stream on the database. The server filters it: heartbeats, and locks that do not concern this
// watcher, never come over the network. A stream that breaks is resumed by the driver without loss where it can be;
// else the channel is closed.
func (s *Store) Watch(ctx context.Context, in store.Interest) (<-chan store.Notification, error) {
	if s.standalone {
		return nil, fmt.Errorf("watch: %w: MongoDB is a standalone server", store.ErrCannotWatch)
	}
	if err := in.Validate(); err != nil {
		return nil, fmt.Errorf("watch: %w", err)
	}
	opening, cancel := s.life.Bound(ctx)
	defer cancel()
	f := &feed{s.reader, s.setup, s.life, &s.broken}
	opts := options.ChangeStream().SetFullDocument(options.UpdateLookup).SetMaxAwaitTime(awaitEvents)
	stream, err := s.client.Database(s.database).Watch(opening, f.pipeline(in), opts)
	if err != nil {
		return nil, s.translate("watch", err)
	}
	n := store.NewNotifier() // from here on nothing is missed
	if !s.life.Go(func() {
		defer n.Close()
		f.follow(ctx, stream, n)
	}) {
		_ = stream.Close(opening)
		return nil, fmt.Errorf("watch: %w: %w", store.ErrUnavailable, adapter.ErrClosed)
	}
	return n.C(), nil
}

// feed is change streams as notifications.
type feed struct {
	*reader
	setup  *setup
	life   *adapter.Life
	broken *atomic.Bool // the last watch broke, and none has worked since
}

// pipeline filters events on the server. Only Increments are updates, so only they are looked up; inserts and
// replacements carry the document.
func (f *feed) pipeline(in store.Interest) mongo.Pipeline {
	wanted := bson.A{where("operationType", "$in", "drop", "rename", "dropDatabase", "invalidate")}
	for _, info := range store.Table() {
		if !in.WantsKind(info.Kind) {
			continue
		}
		for _, condition := range conditions(info, in) {
			wanted = append(
				wanted, append(bson.D{{Key: "ns.coll", Value: collectionName(f.cluster, info.Kind)}}, condition...),
			)
		}
	}
	return mongo.Pipeline{{{Key: "$match", Value: bson.D{{Key: "$or", Value: wanted}}}}}
}

// conditions say which events of a kind's collection a watcher wants, any of them.
func conditions(info store.KindInfo, in store.Interest) []bson.D {
	switch info.Notify {
	case store.NotifyStates:
		// A heartbeat replaces a live session by a live one; it is what must not come.
		return []bson.D{
			where("operationType", "$in", "insert", "delete"),
			where("fullDocument.state", "$nin", store.StateLive, nil),
		}
	case store.NotifyFree:
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
	case store.NotifyAlways, store.NotifyNever:
	}
	switch {
	case in.Groups == nil:
		return []bson.D{{}}
	case info.Kind == store.KindGroup:
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
	Key struct {
		ID bson.RawValue `bson:"_id"`
	} `bson:"documentKey"`
	Document bson.Raw `bson:"fullDocument"`
}

// follow turns events into notifications until ctx ends, the store is closed, or the stream breaks.
func (f *feed) follow(ctx context.Context, stream *mongo.ChangeStream, n *store.Notifier) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer f.life.OnEnd(cancel)()
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), f.timeout)
		defer cancel()
		_ = stream.Close(closing)
	}()
	kinds := map[string]store.Kind{}
	for _, k := range store.Kinds() {
		kinds[collectionName(f.cluster, k)] = k
	}
	for {
		e, err := f.next(ctx, stream)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			f.broke(f.translate("watch", err))
			return
		}
		kind, ours := kinds[e.Namespace.Collection]
		if e.Operation == "dropDatabase" || ours && e.Operation == "drop" {
			// the stream may end with what it watched
			f.life.Go(func() { f.remake(context.WithoutCancel(ctx)) })
		}
		if one, ok := f.notification(kind, e); ours && ok {
			n.Send(one)
		}
	}
}

// broke logs why a watch broke: as an error once until one works again, since callers open another one at once.
func (f *feed) broke(err error) {
	if f.broken.Swap(true) {
		f.log.V(1).Info("The watch broke again", "error", err.Error())
		return
	}
	f.log.Error(err, "The watch broke: opening it again")
}

// remake makes collections and indexes again after somebody dropped some: they come back by themselves with the next
// write, but without what keeps searches short.
func (f *feed) remake(ctx context.Context) {
	ctx, cancel := f.life.Bound(ctx)
	defer cancel()
	f.log.Info("A collection was dropped: making it again")
	if err := f.setup.makeIndexes(ctx); err != nil {
		f.log.Error(
			f.translate("make dropped collections again", err), "Searches in the store may be slow until a restart",
		)
	}
}

// errInvalidated says that what is watched was dropped or renamed.
var errInvalidated = errors.New("a collection was dropped or renamed")

// next waits for the next event. Each request to the server has a limit, since a server that is cut off never answers.
func (f *feed) next(ctx context.Context, stream *mongo.ChangeStream) (event, error) {
	for answered := false; ; answered = true { // the first batch came with the stream
		got, err := func() (bool, error) {
			ctx, cancel := context.WithTimeout(ctx, awaitEvents+max(f.timeout, minConnectTimeout))
			defer cancel()
			return stream.TryNext(ctx), stream.Err()
		}()
		switch {
		case err != nil:
			return event{}, err
		case !got && stream.ID() == 0:
			return event{}, errInvalidated
		}
		if got || answered {
			f.broken.Store(false)
		}
		if !got {
			continue
		}
		var e event
		if err := stream.Decode(&e); err != nil {
			return event{}, fmt.Errorf("read an event: %w", err)
		}
		return e, nil
	}
}

// notification is an event as a notification; ok is false for events that are none.
func (f *feed) notification(kind store.Kind, e event) (n store.Notification, ok bool) {
	switch e.Operation {
	case "insert", "replace", "update", "delete":
	default: // dropped or renamed: what was known may be gone
		return store.Notification{Resync: true}, true
	}
	n.Kind = kind
	n.ID, ok = e.Key.ID.StringValueOK()
	if len(e.Document) > 0 {
		var found store.Reply
		if f.add(&found, kind, e.Document); len(found.Docs) > 0 {
			n.Doc = &found.Docs[0]
		}
	}
	return n, ok
}
