package record

import (
	"cmp"
	"fmt"

	"github.com/shardctl/shardctl/pkg/store/driver"
)

// The types of events that electors note. Others note events of their own types.
const (
	EventMoved     = "Moved"     // a key has another owner
	EventReleased  = "Released"  // a key was released for a reason, and reserved for none
	EventDied      = "Died"      // a session was found dead
	EventLeaseLost = "LeaseLost" // a session ended since its lease was not renewed; its instance goes on with another
)

// Event is something that happened to a key, an instance or a configuration.
type Event struct {
	ID      string `json:"-"`    // ordered by time
	Time    int64  `json:"time"` // store's clock, Unix ms
	Type    string `json:"type"` // EventMoved, …
	Reason  Reason `json:"reason,omitempty"`
	Key     Key    `json:"key,omitempty"`
	Group   string `json:"group,omitempty"` // of what happened to a group, and to no key
	From    string `json:"from,omitempty"`  // instance names
	To      string `json:"to,omitempty"`
	Token   int64  `json:"token,omitempty"`
	By      string `json:"by,omitempty"`
	Message string `json:"message,omitempty"`
}

// CounterEvents is the ID of the counter, next to those of groups, that is incremented once events have been written.
const CounterEvents = "~events"

// EventsWritten is the change that has those read events who watch them. It is sent once the events are written.
func EventsWritten() driver.Change {
	return driver.Change{Op: driver.Increment, Doc: driver.Doc{Kind: driver.KindGroup, ID: CounterEvents}}
}

// CounterLists is the ID of the counter that is incremented once a list that replicas read is published.
const CounterLists = "~lists"

// ListPublished is the change that has replicas read the lists: of what was discovered, and of weights.
func ListPublished() driver.Change {
	return driver.Change{Op: driver.Increment, Doc: driver.Doc{Kind: driver.KindGroup, ID: CounterLists}}
}

// EventID is that of the n-th event that a session notes, at a time of the store's clock in Unix ms. The order of IDs
// is that of times.
func EventID(at int64, session string, n int64) string {
	const width = 13 // digits of a Unix time in ms until the year 2286
	return fmt.Sprintf("%0*d-%.8s-%06d", width, at, session, n)
}

// Doc is e as a document, written by s.
func (e Event) Doc(s driver.WriterID) driver.Doc {
	return driver.Doc{
		Kind: driver.KindEvent, ID: e.ID, Rev: 1, WriterID: s, Group: cmp.Or(e.Group, e.Key.Group()), Body: mustJSON(e),
		Expires: e.Time + driver.KindEvent.Info().Retention.Milliseconds(),
	}
}

// EventFrom reads an event from its document.
func EventFrom(d driver.Doc) (Event, error) { return Guarded(d, readEvent) }

func readEvent(d driver.Doc) (Event, error) {
	var e Event
	err := decode(d, &e)
	e.ID = d.ID
	var m cleaner
	m.moment("time", &e.Time)
	return e, m.err(d, err)
}
