package redis

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/shardctl/shardctl/internal/subscribe"
)

// position is a place in a stream: the last entry that was given or acknowledged.
type position struct {
	last id
	// read is how many entries had been added to the stream up to it; negative: not known.
	read int64
	// digest is that of the entry as a message; empty: not known.
	digest string
}

// unknown is the count of a position that may have been anywhere.
const unknown = -1

// plus is the position after some entries more.
func (p position) plus(entries int, last id) position {
	if p.read < 0 {
		return position{last: last, read: unknown}
	}
	return position{last: last, read: p.read + int64(entries)}
}

// extent is what a stream holds.
type extent struct {
	length  int64
	added   int64 // entries, ever
	first   id    // entry that is there; zero: there is none
	newest  id    // ID that was ever given
	current position
}

func (l *link) extent(ctx context.Context) (extent, error) {
	info, err := ask(ctx, l, func(ctx context.Context) (*redis.XInfoStream, error) {
		return l.client.XInfoStream(ctx, l.stream).Result()
	})
	if err != nil {
		return extent{}, err
	}
	return extentOf(info)
}

func extentOf(info *redis.XInfoStream) (extent, error) {
	if info.RecordedFirstEntryID == "" {
		return extent{}, errors.New("the server is older than Redis 7.0: it does not count a stream's entries")
	}
	e := extent{length: info.Length, added: info.EntriesAdded}
	var err error
	if e.newest, err = parseID(info.LastGeneratedID); err != nil {
		return extent{}, err
	}
	if e.length > 0 {
		if e.first, err = parseID(info.RecordedFirstEntryID); err != nil {
			return extent{}, err
		}
	}
	e.current = position{last: e.newest, read: e.added}
	return e, nil
}

// removed is how many entries are no longer there.
func (e extent) removed() int64 { return e.added - e.length }

// begin is the position that a start or a missing position stands for.
func (e extent) begin(where string) (position, error) {
	switch where {
	case subscribe.Earliest:
		return position{read: e.removed()}, nil
	case subscribe.Latest:
		return e.current, nil
	}
	last, err := parseID(where)
	if err != nil {
		return position{}, err
	}
	return position{last: last, read: e.readUpTo(last)}, nil
}

// readUpTo is how many entries were added up to an ID; negative: not known.
func (e extent) readUpTo(last id) int64 {
	switch {
	case !last.before(e.newest):
		return e.added
	case e.length > 0 && !last.before(e.first):
		return unknown
	default:
		return e.removed()
	}
}

// lost says in words what is gone after a position; empty: nothing is. Of one stream no fewer entries were removed than
// had been read, once the position is before its first.
func (e extent) lost(p position) string {
	gone := e.removed() - max(p.read, 0)
	switch {
	case e.newest.before(p.last):
		return fmt.Sprintf("the stream ends at %s, before the position %s: it was made again, or lost its end",
			e.newest, p.last)
	case e.added < p.read:
		return e.madeAgain(p)
	case p.last == e.newest, e.length > 0 && !p.last.before(e.first), gone == 0:
		return ""
	case gone < 0:
		return e.madeAgain(p)
	default:
		return fmt.Sprintf("up to %d entries after the position %s were removed before they were read", gone, p.last)
	}
}

func (e extent) madeAgain(p position) string {
	return fmt.Sprintf("the stream was made again: %d entries had been read up to the position %s, and this one has had "+
		"%d, of which %d were removed", p.read, p.last, e.added, e.removed())
}

// after is how many entries there are after a position, at most guess where that is not known; negative: unknown.
func (e extent) after(p position, guess int64) int64 {
	switch {
	case !p.last.before(e.newest):
		return 0
	case p.last.before(e.first):
		return e.length
	case guess < 0:
		return -1
	default:
		return min(guess, e.length)
	}
}

// stopped is the error for a position that is missing, where that is to stop the task.
func stopped(what string) error {
	return fmt.Errorf("%w: %s: set redis.missing to earliest or latest to go on", subscribe.ErrStop, what)
}
