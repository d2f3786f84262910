package redis

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/dbstore"
)

// Examined says how many entries of indexes a List looks at.
func Examined(ctx context.Context, s driver.Store, kind driver.Kind, q driver.Query) (int64, error) {
	_, err := s.List(ctx, kind, q)
	return of(s).looked.Load(), err
}

// ShiftSchema makes the database look as if another version had set it up.
func ShiftSchema(ctx context.Context, s driver.Store, by int) error {
	b := of(s)
	return b.others.use(ctx, func(c *redis.Client) error {
		return c.HSet(ctx, b.keys.state(), "schema", schemaVersion+by).Err()
	})
}

// Spoil edits a document so that no one can read it, as an operator with redis-cli may.
func Spoil(ctx context.Context, s driver.Store, kind driver.Kind, id string) error {
	b := of(s)
	return b.others.use(ctx, func(c *redis.Client) error {
		return c.HSet(ctx, b.keys.of(kind)[2], id, `{"rev":"by hand"}`).Err()
	})
}

func of(s driver.Store) *backend { return s.(*dbstore.Store).Backend().(*backend) }

// Encode is a document as it is kept.
func Encode(d driver.Doc) []byte { return encode(d) }

// Decode is the reverse.
func Decode(kind driver.Kind, id, text string) (driver.Doc, error) { return decode(kind, id, text) }

// Refuse says why a server will not do that says this of itself.
func Refuse(info map[string]string) error { return description{info: info}.refuse(false) }
