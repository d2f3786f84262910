package mongostore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/elect/store"
)

const (
	// hintBuffer is how many hints wait for a slow reader before they are dropped and a Resync takes their place.
	hintBuffer = 256
	// awaitEvents is how long the server holds a request for events when there are none.
	awaitEvents = 5 * time.Second
)

// Watch opens one change stream on the database. The server filters it: heartbeats, and locks that are not reserved for this session, never come
// over the network. A stream that breaks is resumed by the driver without loss where it can be; else the channel is closed.
func (s *Store) Watch(ctx context.Context, session string) (<-chan store.Notification, error) {
	if s.standalone {
		return nil, fmt.Errorf("watch: %w: MongoDB is a standalone server", store.ErrCannotWatch)
	}
	opening, cancel := s.bound(ctx)
	defer cancel()
	opts := options.ChangeStream().SetFullDocument(options.UpdateLookup).SetMaxAwaitTime(awaitEvents)
	stream, err := s.client.Database(s.database).Watch(opening, s.pipeline(session), opts)
	if err != nil {
		return nil, s.translate("watch", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		_ = stream.Close(opening)
		return nil, fmt.Errorf("watch: %w: %w", store.ErrUnavailable, errClosed)
	}
	hints := make(chan store.Notification, hintBuffer)
	hints <- store.Notification{Resync: true} // from here on nothing is missed
	s.watchers.Go(func() {
		defer close(hints)
		s.follow(ctx, stream, hints)
	})
	return hints, nil
}

// pipeline filters events on the server. Only Bumps are updates, so only they are looked up; inserts and replacements
// carry the document.
func (s *Store) pipeline(session string) mongo.Pipeline {
	in := func(kind store.Kind, more ...bson.E) bson.D {
		return append(bson.D{{Key: "ns.coll", Value: collectionName(s.cluster, kind)}}, more...)
	}
	states := bson.A{string(elect.Draining), string(elect.Dead)}
	wanted := bson.A{
		in(store.KindGroup),
		in(store.KindOverride),
		// A beat replaces a live session by a live one; it is what must not come.
		in(store.KindSession, bson.E{Key: "fullDocument.state", Value: bson.D{{Key: "$in", Value: states}}}),
		in(store.KindSession, bson.E{Key: "operationType", Value: bson.D{{Key: "$in", Value: bson.A{"insert", "delete"}}}}),
		bson.D{{Key: "operationType", Value: bson.D{{Key: "$in", Value: bson.A{"drop", "rename", "dropDatabase", "invalidate"}}}}},
	}
	if session != "" {
		wanted = append(wanted, in(store.KindLock, bson.E{Key: "fullDocument.next", Value: session}))
	}
	return mongo.Pipeline{{{Key: "$match", Value: bson.D{{Key: "$or", Value: wanted}}}}}
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

// follow turns events into hints until ctx ends, the store is closed, or the stream breaks.
func (s *Store) follow(ctx context.Context, stream *mongo.ChangeStream, hints chan<- store.Notification) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer s.onClose(cancel)()
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.timeout)
		defer cancel()
		_ = stream.Close(closing)
	}()
	kinds := map[string]store.Kind{}
	for _, k := range store.Kinds() {
		kinds[collectionName(s.cluster, k)] = k
	}
	for {
		e, err := s.next(ctx, stream)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			s.log.Error(s.translate("watch", err), "watch broke")
			return
		}
		kind, ours := kinds[e.Namespace.Collection]
		if e.Operation == "dropDatabase" || ours && e.Operation == "drop" {
			s.watchers.Go(func() { s.remake(context.WithoutCancel(ctx)) }) // the stream may end with what it watched
		}
		if hint, ok := s.hint(kind, e); ours && ok && !send(ctx, hints, hint) {
			return
		}
	}
}

// remake makes collections and indexes again after somebody dropped some: they come back by themselves with the next write, but
// without what keeps searches short.
func (s *Store) remake(ctx context.Context) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	s.log.Info("A collection was dropped: making it again")
	if err := s.makeIndexes(ctx); err != nil {
		s.log.Error(s.translate("make dropped collections again", err), "searches in the store may be slow until a restart")
	}
}

// errInvalidated says that what is watched was dropped or renamed.
var errInvalidated = errors.New("a collection was dropped or renamed")

// next waits for the next event. Each request to the server has a limit, since a server that is cut off never answers.
func (s *Store) next(ctx context.Context, stream *mongo.ChangeStream) (event, error) {
	for {
		got, err := func() (bool, error) {
			ctx, cancel := context.WithTimeout(ctx, awaitEvents+max(s.timeout, minConnectTimeout))
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

// hint is an event as a hint; ok is false for events that are none.
func (s *Store) hint(kind store.Kind, e event) (h store.Notification, ok bool) {
	switch e.Operation {
	case "insert", "replace", "update", "delete":
	default: // dropped or renamed: what was known may be gone
		return store.Notification{Resync: true}, true
	}
	h.Kind = kind
	h.ID, ok = e.Key.ID.StringValueOK()
	if len(e.Document) > 0 {
		if d, readable := s.decode(kind, e.Document); readable {
			h.Doc = &d
		}
	}
	return h, ok
}

// send never waits for the reader with a hint: when the buffer is full it drops the hint, and waits with a Resync instead. Meanwhile
// events wait at the server. It returns false when ctx ended.
func send(ctx context.Context, hints chan<- store.Notification, h store.Notification) bool {
	select {
	case hints <- h:
		return true
	default:
	}
	select {
	case hints <- store.Notification{Resync: true}:
		return true
	case <-ctx.Done():
		return false
	}
}
