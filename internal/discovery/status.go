package discovery

import (
	"github.com/shardctl/shardctl/internal/published"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/store"
)

func placeOf(group string) published.Place {
	return published.Place{Space: record.GroupDiscovery, Group: group}
}

// Key is the lock under which a group is looked at.
func Key(group string) record.Key { return placeOf(group).Key() }

// Published is a list as it was read.
type Published = published.List[Entry, Status]

// Reader reads the list of one group again and again. It is for one goroutine.
type Reader = published.Reader[Entry, Status]

// NewReader makes a reader that has read nothing.
func NewReader(db store.Store, group string) *Reader {
	return published.NewReader[Entry, Status](db, placeOf(group))
}

// writer writes the list of one group under one token of its lock.
type writer = published.Writer[Entry, Status]

func newWriter(db store.Store, group string, token int64) *writer {
	return published.NewWriter[Entry, Status](db, placeOf(group), token)
}

// before is what a look begins with.
type before = published.Before[Entry, Status]

// Status says how looking goes. Times are the store's clock in Unix ms.
type Status struct {
	Lister  string `json:"lister"`            // who is asked, as http
	By      string `json:"by"`                // the instance that looked last
	At      int64  `json:"at,omitempty"`      // when a look last succeeded; 0: never
	Found   int    `json:"found,omitempty"`   // how many that look found
	LeftOut int    `json:"leftOut,omitempty"` // of these, beyond the limit
	Error   string `json:"error,omitempty"`   // why the last look failed; empty: it succeeded
	Since   int64  `json:"since,omitempty"`   // when looks began to fail
}

// news says whether others should hear soon of what has changed since before.
func (s Status) news(before Status) bool {
	return s.Error != before.Error || s.LeftOut != before.LeftOut || s.At != 0 && before.At == 0
}
