package redis

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"

	"github.com/shardctl/shardctl/internal/subscribe"
	"github.com/shardctl/shardctl/internal/subscribe/internal/recall"
)

// stored is a subscription whose position is kept with the lock.
type stored struct {
	common
	checkpoint subscribe.Checkpoint
	// at is what was read last. Only the fetch that is under way looks at it.
	at position

	mu   sync.Mutex
	done position // what is acknowledged

	attempts *recall.Attempts // by the IDs of entries
}

// checkpoint is the value that is kept, as JSON.
type checkpoint struct {
	Stream string `json:"stream"`
	ID     string `json:"id"`               // of the last entry that was acknowledged
	Read   int64  `json:"read"`             // entries that had been added up to it, as far as that is known
	Digest string `json:"digest,omitempty"` // of that entry
	// Attempts at entries after it are JSON of package recall.
	Attempts json.RawMessage `json:"attempts,omitempty"`
}

// openStored begins after the checkpoint.
func openStored(ctx context.Context, c common, kept subscribe.Checkpoint) (*stored, error) {
	s := &stored{common: c, checkpoint: kept, attempts: recall.ParseAttempts("")}
	s.reader = newReader(s.fetch)
	value, err := kept.Value(ctx)
	if err != nil {
		return nil, err
	}
	e, err := s.extent(ctx)
	if err != nil {
		return nil, err
	}
	at, changed, err := s.place(ctx, e, value)
	if err != nil {
		return nil, err
	}
	s.at = at
	if changed {
		// Kept at once: the next owner must not begin at another end of the stream.
		return s, s.keep(ctx, at)
	}
	s.done = at
	return s, nil
}

// place is where to begin. Changed says that it is not what the checkpoint holds.
func (s *stored) place(ctx context.Context, e extent, value []byte) (at position, changed bool, err error) {
	var was checkpoint
	if len(value) > 0 {
		if err := json.Unmarshal(value, &was); err != nil {
			return position{}, false, fmt.Errorf("redis stream %s: the checkpoint is malformed: %w", s.stream, err)
		}
	}
	if was.Stream != s.stream {
		if was.Stream != "" {
			s.log.Info("A position of another stream is dropped", "position", was.Stream+"/"+was.ID)
		}
		at, err = s.begin(e)
		return at, true, err
	}
	at.read, at.digest = was.Read, was.Digest
	if at.last, err = parseID(was.ID); err != nil {
		return position{}, false, fmt.Errorf("redis stream %s: the checkpoint is malformed: %w", s.stream, err)
	}
	what := e.lost(at)
	if what == "" {
		what, err = s.another(ctx, at)
	}
	if err != nil {
		return position{}, false, err
	}
	if what != "" {
		at, err = s.recover(e, what)
		return at, true, err
	}
	s.attempts = recall.ParseAttempts(string(was.Attempts))
	return at, false, nil
}

// another says in words that the entry of a position is not the one that was read; empty: it is, or is gone.
func (s *stored) another(ctx context.Context, at position) (string, error) {
	if at.digest == "" {
		return "", nil
	}
	reply, err := ask(ctx, s.link, func(ctx context.Context) (any, error) {
		return s.client.Do(ctx, "XRANGE", s.stream, at.last.String(), at.last.String()).Result()
	})
	if err != nil {
		return "", err
	}
	found, err := entriesIn(reply)
	if err != nil || len(found) == 0 || s.digest(found[0].message(s.stream, s.field)) == at.digest {
		return "", err
	}
	return fmt.Sprintf("the stream was made again: its entry %s is not the one that was read", at.last), nil
}

// digest is that of a message's entry, whichever of its fields holds the body.
func (s *stored) digest(m subscribe.Message) string {
	fields := maps.Clone(m.Headers)
	for name, value := range map[string][]byte{s.field: m.Body, keyField: m.Key} {
		if value != nil {
			fields[name] = string(value)
		}
	}
	if m.Type != "" {
		fields[typeField] = m.Type
	}
	return recall.Digest(nil, fields)
}

func (s *stored) fetch(count int) ([]entry, error) {
	ctx := context.Background() // ends with the connection
	for {
		entries, err := s.after(ctx, count)
		if err != nil {
			return nil, err
		}
		if len(entries) > 0 {
			for i := range entries {
				entries[i].delivered = s.attempts.Of(entries[i].id.String())
			}
			s.at = s.at.plus(len(entries), entries[len(entries)-1].id)
			return entries, nil
		}
		if err := s.await(s.at.last, s.block); err != nil {
			return nil, err
		}
	}
}

// after gives entries after what was read last.
func (s *stored) after(ctx context.Context, count int) ([]entry, error) {
	reply, err := ask(ctx, s.link, func(ctx context.Context) (any, error) {
		return rangeScript.Run(ctx, s.client, []string{s.stream}, s.at.last.String(), text(s.at.read), count).Result()
	})
	if err != nil {
		return nil, err
	}
	return entriesIn(reply)
}

// Ack keeps the place of the last message, which acknowledges those before it.
func (s *stored) Ack(ctx context.Context, messages []subscribe.Message) error {
	if len(messages) == 0 {
		return nil
	}
	last, ok := messages[len(messages)-1].Ref.(id)
	if !ok {
		return errors.New("a message of another source was acknowledged")
	}
	s.mu.Lock()
	at := s.done.plus(len(messages), last)
	s.mu.Unlock()
	at.digest = s.digest(messages[len(messages)-1])
	return s.keep(ctx, at)
}

// KeepDelivered keeps attempts with the position.
func (s *stored) KeepDelivered(ctx context.Context, messages []subscribe.Message) error {
	now := map[string]int{}
	for _, m := range messages {
		at, _ := m.Ref.(id)
		now[at.String()] = m.Delivered
	}
	s.attempts.Update(now)
	s.mu.Lock()
	at := s.done
	s.mu.Unlock()
	return s.keep(ctx, at)
}

func (s *stored) keep(ctx context.Context, at position) error {
	s.attempts.Drop(func(name string) bool {
		of, err := parseID(name)
		return err != nil || !at.last.before(of)
	})
	value, err := json.Marshal(checkpoint{
		Stream: s.stream, ID: at.last.String(), Read: at.read, Digest: at.digest,
		Attempts: json.RawMessage(s.attempts.String()),
	})
	if err != nil {
		return err
	}
	if err := s.checkpoint.SetValue(ctx, value); err != nil {
		return err
	}
	s.mu.Lock()
	s.done = at
	s.mu.Unlock()
	return nil
}

// Cumulative is true: the position is one entry's.
func (s *stored) Cumulative() bool { return true }

// DeadLetter adds an entry to another stream.
func (s *stored) DeadLetter(ctx context.Context, to string, m subscribe.Message, why subscribe.Why) error {
	command := append([]any{"XADD", to, "*"}, fieldsOf(m, s.field, why.Headers())...)
	_, err := ask(ctx, s.link, func(ctx context.Context) (any, error) { return s.client.Do(ctx, command...).Result() })
	return letterError(to, err)
}

// Lag is what comes after the position.
func (s *stored) Lag(ctx context.Context) (subscribe.Lag, error) {
	e, err := s.extent(ctx)
	if err != nil {
		return subscribe.Unknown, err
	}
	s.mu.Lock()
	if s.done.last == e.newest {
		s.done.read = e.added
	}
	done := s.done
	s.mu.Unlock()
	guess := e.added - done.read
	if done.read < 0 {
		guess = unknown
	}
	behind := e.after(done, guess)
	if behind == 0 {
		return subscribe.Lag{}, nil
	}
	oldest, err := s.firstAfter(ctx, done.last)
	if err != nil {
		return subscribe.Unknown, err
	}
	return s.lag(ctx, behind, oldest)
}
