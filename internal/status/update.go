package status

import (
	"encoding/json"
	"reflect"
	"sync"
)

// update is one change of an item, encoded once for all watchers that are sent it.
type update[T any] struct {
	id            string // of the event
	before, after *T     // copies, so that no snapshot is kept; nil: it is not there

	mu    sync.Mutex
	texts [4][]byte // as they were asked for
}

// text is the update as an event of a stream: an upsert of the item as it is, or else a deletion of what it was.
func (u *update[T]) text(c *collection[T], upsert, hidden bool) ([]byte, error) {
	kind, item, at := "upsert", u.after, 0
	if !upsert {
		kind, item, at = "delete", u.before, 2
	}
	if hidden {
		at++
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.texts[at] == nil {
		text, err := framed(kind, u.id, c.show(hidden, item))
		if err != nil {
			return nil, err
		}
		u.texts[at] = text
	}
	return u.texts[at], nil
}

// weight is about how many bytes the update takes. Texts of its items are shared with the snapshots.
func (u *update[T]) weight(c *collection[T]) (int64, error) {
	text, err := u.text(c, u.after != nil, false)
	items := 2 * int64(reflect.TypeFor[T]().Size()) //nolint:gosec // G115: types are small
	return items + 2*int64(len(text)), err
}

// framed is an event of a stream with an object.
func framed(kind, id string, item any) ([]byte, error) {
	data, err := json.Marshal(item)
	if err != nil {
		return nil, err
	}
	text := make([]byte, 0, len("event: \nid: \ndata: \n\n")+len(kind)+len(id)+len(data))
	text = append(text, "event: "+kind+"\nid: "+id+"\ndata: "...)
	text = append(text, data...)
	return append(text, "\n\n"...), nil
}
