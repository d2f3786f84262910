package redis

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/shardctl/shardctl/pkg/store"
)

// Examined says how many entries of indexes a List looks at.
func (s *Store) Examined(ctx context.Context, kind store.Kind, q store.Query) (int64, error) {
	_, err := s.List(ctx, kind, q)
	return s.reader.looked.Load(), err
}

// ShiftSchema makes the database look as if another version had set it up.
func (s *Store) ShiftSchema(ctx context.Context, by int) error {
	return s.others.use(ctx, func(c *redis.Client) error {
		return c.HSet(ctx, s.keys.state(), "schema", schemaVersion+by).Err()
	})
}

// Spoil edits a document so that no one can read it, as an operator with redis-cli may.
func (s *Store) Spoil(ctx context.Context, kind store.Kind, id string) error {
	return s.others.use(ctx, func(c *redis.Client) error {
		return c.HSet(ctx, s.keys.of(kind)[2], id, `{"rev":"by hand"}`).Err()
	})
}

// Encode is a document as it is kept.
func Encode(d store.Doc) []byte { return encode(d) }

// Decode is the reverse.
func Decode(kind store.Kind, id, text string) (store.Doc, error) { return decode(kind, id, text) }

// Refuse says why a server will not do that says this of itself.
func Refuse(info map[string]string) error { return description{info: info}.refuse(false) }
