package mongo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/shardctl/shardctl/pkg/store/driver"
)

// identityID is that of the document beside the schema's version which says which store this is. It is written once. It
// is no document of the store, so a copy to another one has its own.
const identityID = "store"

const fieldUUID = "uuid"

// identify finds out which store this is, or says so, where this user may. Nothing is compared where that is not known.
func (s *setup) identify(ctx context.Context, existing bool) (err error) {
	s.identity, err = s.readIdentity(ctx, s.clients().client)
	if err != nil || s.identity != "" || existing {
		return err
	}
	_, err = s.clients().client.Database(s.database).Collection(s.schemaName()).InsertOne(
		ctx, bson.D{{Key: fieldID, Value: identityID}, {Key: fieldUUID, Value: uuid.NewString()}},
	)
	switch {
	case hasCode(err, codeUnauthorized):
		s.log.V(1).Info("The identity of the store is unknown", "error", s.causes.Describe(err).Error())
		return nil
	case err != nil && !mongo.IsDuplicateKeyError(err): // of somebody who was faster
		return fmt.Errorf("write the identity of the store to %s: %w", s.schemaName(), err)
	}
	s.identity, err = s.readIdentity(ctx, s.clients().client)
	return err
}

// readIdentity is the identity of the store that a client leads to; empty: it has none.
func (a *access) readIdentity(ctx context.Context, client *mongo.Client) (string, error) {
	schema := client.Database(a.database).Collection(a.schemaName())
	found, err := schema.FindOne(ctx, bson.D{{Key: fieldID, Value: identityID}}).Raw()
	if errors.Is(err, mongo.ErrNoDocuments) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the identity of the store from %s: %w", a.schemaName(), err)
	}
	text, _ := found.Lookup(fieldUUID).StringValueOK()
	return text, nil
}

// same makes sure that the client of a kind leads to the store that was opened, where that is in doubt: a connection was
// made since it was compared, or a collection was dropped or renamed. A client that leads elsewhere gives its
// connections up, so that it follows the name when that leads back.
func (a *access) same(ctx context.Context, now *clients, kind driver.Kind) error {
	client, conns := now.way(kind)
	doubt := conns.doubts.Load()
	if a.identity == "" || conns.settled.Load() >= doubt {
		return nil
	}
	found, err := a.readIdentity(ctx, client)
	if err != nil {
		return err
	}
	if found != a.identity {
		conns.leave(time.Now())
		return driver.Other(a.identity, found)
	}
	for settled := conns.settled.Load(); settled < doubt; settled = conns.settled.Load() {
		conns.settled.CompareAndSwap(settled, doubt)
	}
	return nil
}

// errRenewed is that of a call in whose time other clients took the place of those there were: which of them it went
// over is not known.
var errRenewed = errors.New("the clients were renewed meanwhile")

// surely calls f, for documents of these kinds, with clients that lead to the store that was opened. No connection can
// be refused while it is made. So a call may have gone to another store over one that was made meanwhile, and its result
// does not count then: what it wrote is unknown.
func (a *access) surely(ctx context.Context, f func() error, kinds ...driver.Kind) error {
	now := a.clients()
	for _, kind := range kinds {
		if err := a.same(ctx, now, kind); err != nil {
			return err
		}
	}
	err := f()
	if err == nil && a.clients() != now {
		return errRenewed
	}
	for _, kind := range kinds {
		if other := a.same(ctx, now, kind); other != nil && (err == nil || errors.Is(other, driver.ErrOther)) {
			return other
		}
	}
	return err
}

// doubt has both clients compared again.
func (a *access) doubt() {
	now := a.clients()
	now.common.doubts.Add(1)
	now.own.doubts.Add(1)
}
