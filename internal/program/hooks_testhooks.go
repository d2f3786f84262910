//go:build testhooks

package program

import (
	"bytes"
	"context"
	"os"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// envUnknownFields makes this program write like one of a later version, which knows fields that this one does not.
const envUnknownFields = "SHARDCTL_TEST_UNKNOWN_FIELDS"

func init() {
	if os.Getenv(envUnknownFields) != "" {
		hooked = func(db store.Store) store.Store { return laterStore{db} }
	}
}

// laterStore writes fields that this version does not know, and knows them itself: what it reads is without them.
type laterStore struct{ store.Store }

// Apply implements [store.Store]. The same change always becomes the same write: it may be a repeat.
func (s laterStore) Apply(ctx context.Context, changes ...driver.Change) ([]driver.Outcome, error) {
	changed := make([]driver.Change, len(changes))
	for i, c := range changes {
		if c.Op == driver.Put {
			c.Doc.Body = withUnknown(c.Doc.Body)
		}
		changed[i] = c
	}
	outs, err := s.Store.Apply(ctx, changed...)
	for i := range outs {
		if doc := outs[i].Doc; doc != nil {
			doc.Body = withoutUnknown(doc.Body)
		}
	}
	return outs, err
}

// Read implements [store.Store].
func (s laterStore) Read(ctx context.Context, kind driver.Kind, ids ...string) (driver.Reply, error) {
	return known(s.Store.Read(ctx, kind, ids...))
}

// List implements [store.Store].
func (s laterStore) List(ctx context.Context, kind driver.Kind, q driver.Query) (driver.Reply, error) {
	return known(s.Store.List(ctx, kind, q))
}

func known(res driver.Reply, err error) (driver.Reply, error) {
	for i := range res.Docs {
		res.Docs[i].Body = withoutUnknown(res.Docs[i].Body)
	}
	return res, err
}

const (
	laterFields = `"later":{"since":"version 99","list":[1,"two",null]},"laterNumber":1e300`
	inStatus    = `"status":{`
)

// withUnknown adds fields to a JSON object, and to the status in that of a lock.
func withUnknown(body []byte) []byte {
	if len(body) == 0 {
		return body
	}
	body = bytes.Replace(body, []byte(inStatus), []byte(inStatus+laterFields+","), 1)
	if end := body[:len(body)-1]; len(end) > 1 {
		return append(bytes.Clone(end), ","+laterFields+"}"...)
	}
	return []byte("{" + laterFields + "}")
}

func withoutUnknown(body []byte) []byte {
	body = bytes.ReplaceAll(body, []byte(","+laterFields), nil)
	return bytes.ReplaceAll(body, []byte(laterFields+","), nil)
}
