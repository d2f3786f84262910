package redis

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	"github.com/redis/go-redis/v9"

	"github.com/shardctl/shardctl/internal/subscribe"
)

// common is what subscriptions have wherever their position is kept.
type common struct {
	*link
	*reader
	field   string // of an entry that holds the body
	block   time.Duration
	start   string
	missing string
	log     logr.Logger
}

// Receive waits for entries.
func (c *common) Receive(ctx context.Context, most int) ([]subscribe.Message, error) {
	entries, err := c.next(ctx, most)
	if err != nil {
		return nil, err
	}
	messages := make([]subscribe.Message, len(entries))
	for i, e := range entries {
		messages[i] = e.message(c.stream, c.field)
	}
	return messages, nil
}

// Close ends the connection. What was received and not acknowledged is still pending, or after the position.
func (c *common) Close(context.Context) error {
	return c.close(c.wait)
}

// recover is where to go on when what is after a position is gone. It writes a line, or stops the task.
func (c *common) recover(e extent, what string) (position, error) {
	where := cmp.Or(c.missing, subscribe.Stop)
	if where == subscribe.Stop {
		return position{}, c.explain(stopped(what))
	}
	c.log.Info("Messages are missing, and the subscription goes on without them", "message", what, "to", where)
	return e.begin(where)
}

// begin is the position of a start, for a subscription that has none. It writes a line.
func (c *common) begin(e extent) (position, error) {
	at, err := e.begin(c.start)
	if err == nil {
		subscribe.LogBeginning(c.log, c.stream+"/"+at.last.String())
	}
	return at, err
}

// age is how old the entry of an ID is, by the server's clock; negative: not known.
func (c *common) age(ctx context.Context, at id) (float64, error) {
	added := at.time()
	if added.IsZero() {
		return -1, nil
	}
	now, err := ask(ctx, c.link, func(ctx context.Context) (time.Time, error) { return c.client.Time(ctx).Result() })
	return max(0, now.Sub(added).Seconds()), err
}

// firstAfter is the first entry after a position; its zero value says that there is none.
func (c *common) firstAfter(ctx context.Context, last id) (id, error) {
	found, err := ask(ctx, c.link, func(ctx context.Context) ([]redis.XMessage, error) {
		return c.client.XRangeN(ctx, c.stream, "("+last.String(), "+", 1).Result()
	})
	if err != nil || len(found) == 0 {
		return id{}, err
	}
	return parseID(found[0].ID)
}

// lag makes a Lag of how many entries are behind, and the oldest of them where that is known.
func (c *common) lag(ctx context.Context, messages int64, oldest id) (subscribe.Lag, error) {
	if messages == 0 {
		return subscribe.Lag{}, nil
	}
	if oldest == (id{}) {
		return subscribe.Lag{Messages: messages, Seconds: -1}, nil
	}
	seconds, err := c.age(ctx, oldest)
	if err != nil {
		return subscribe.Unknown, err
	}
	return subscribe.Lag{Messages: messages, Seconds: seconds}, nil
}

// letterError says which stream a dead letter was for.
func letterError(to string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("dead letter to stream %s: %w", to, err)
}

func text(n int64) string { return strconv.FormatInt(n, 10) }

// How far a reader reads ahead: so many entries, of so many bytes in all as far as the last ones show.
const (
	aheadFirst = 16
	aheadMost  = 256
	aheadBytes = 1 << 20
)

// reader reads ahead, so that one request brings many entries. What it holds is pending, or still to be read again.
// One goroutine calls next.
type reader struct {
	// fetch waits for entries and gives from 1 to count of them. It ends with an error when the connection is closed.
	fetch   func(count int) ([]entry, error)
	answers chan answer
	running bool // a fetch is under way
	ready   []entry
	ahead   int // how many the next fetch asks for
}

type answer struct {
	entries []entry
	err     error
}

func newReader(fetch func(int) ([]entry, error)) *reader {
	return &reader{fetch: fetch, answers: make(chan answer, 1), ahead: aheadFirst}
}

// next gives from 1 to most entries. A fetch that is under way when ctx ends goes on, and the next call has its
// entries.
func (r *reader) next(ctx context.Context, most int) ([]entry, error) {
	if len(r.ready) == 0 {
		if !r.running {
			r.running = true
			count := r.ahead
			go func() {
				entries, err := r.fetch(count)
				r.answers <- answer{entries, err}
			}()
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case a := <-r.answers:
			r.running = false
			if a.err != nil {
				return nil, a.err
			}
			r.ready, r.ahead = a.entries, ahead(a.entries)
		}
	}
	n := min(max(most, 1), len(r.ready))
	entries := r.ready[:n:n]
	r.ready = r.ready[n:]
	return entries, nil
}

// wait returns when no fetch is under way. The connection must be closed.
func (r *reader) wait() {
	if r.running {
		<-r.answers
		r.running = false
	}
}

// ahead is how many entries to ask for, after these.
func ahead(last []entry) int {
	bytes := 0
	for _, e := range last {
		bytes += e.size()
	}
	if bytes == 0 {
		return aheadMost
	}
	return max(1, min(aheadMost, 2*len(last)+aheadFirst, aheadBytes*len(last)/bytes))
}
