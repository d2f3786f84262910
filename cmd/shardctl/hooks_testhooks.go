//go:build testhooks

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"

	"github.com/shardctl/shardctl/pkg/elect"
)

// envUnknownFields makes this program write like one of a later version, which knows fields that this one does not.
const envUnknownFields = "SHARDCTL_TEST_UNKNOWN_FIELDS"

// hooked adds to every document that the program writes fields that nobody knows, when it was asked to.
func hooked(store elect.Store) elect.Store {
	if os.Getenv(envUnknownFields) == "" {
		return store
	}
	return laterStore{store}
}

type laterStore struct{ elect.Store }

// Apply implements [elect.Store]. The same change always becomes the same write: it may be a repeat.
func (s laterStore) Apply(ctx context.Context, changes ...elect.Change) ([]elect.Outcome, error) {
	changed := make([]elect.Change, len(changes))
	for i, c := range changes {
		if c.Op == elect.Put {
			c.Doc.Body = withUnknown(c.Doc.Body)
		}
		changed[i] = c
	}
	return s.Store.Apply(ctx, changed...)
}

// withUnknown adds fields to a JSON object, and to the objects in it.
func withUnknown(body []byte) []byte {
	object := map[string]json.RawMessage{}
	if len(body) > 0 && json.Unmarshal(body, &object) != nil {
		return body
	}
	for name, value := range object {
		// Not into maps whose names mean something: caps by group, labels, grants by key.
		if name == "status" && bytes.HasPrefix(value, []byte("{")) {
			object[name] = withUnknown(value)
		}
	}
	object["later"] = json.RawMessage(`{"since":"version 99","list":[1,"two",null]}`)
	object["laterNumber"] = json.RawMessage(`1e300`)
	out, err := json.Marshal(object)
	if err != nil {
		return body
	}
	return out
}
