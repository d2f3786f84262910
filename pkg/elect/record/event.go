package record

import (
	"github.com/shardctl/shardctl/pkg/elect/store"
)

// Event is something that happened to a key, an instance or a configuration.
type Event struct {
	ID      string `json:"-"`    // ordered by time
	Time    int64  `json:"time"` // store's clock, Unix ms
	Type    string `json:"type"` // Moved, Died, Joined, Left, …
	Reason  Reason `json:"reason,omitempty"`
	Key     Key    `json:"key,omitempty"`
	From    string `json:"from,omitempty"` // instance names
	To      string `json:"to,omitempty"`
	Token   int64  `json:"token,omitempty"`
	By      string `json:"by,omitempty"`
	Message string `json:"message,omitempty"`
}

// Doc is e as a document, written by s.
func (e Event) Doc(s store.WriterID) store.Doc {
	return store.Doc{
		Kind: store.KindEvent, ID: e.ID, Rev: 1, WriterID: s, Group: e.Key.Group(), Body: mustJSON(e),
		Expires: e.Time + store.KindEvent.Info().Retention.Milliseconds(),
	}
}

// EventFrom reads an event from its document.
func EventFrom(d store.Doc) (Event, error) {
	var e Event
	err := decode(d, &e)
	e.ID = d.ID
	var m cleaner
	m.moment("time", &e.Time)
	return e, m.err(d, err)
}
