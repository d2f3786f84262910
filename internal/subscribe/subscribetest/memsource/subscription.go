package memsource

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/shardctl/shardctl/internal/subscribe"
	"github.com/shardctl/shardctl/internal/subscribe/internal/recall"
)

// place is the Ref of a message.
type place struct{ partition, offset int }

// Subscription is an open subscription.
type Subscription struct {
	source   Source
	session  subscribe.Session
	name     string
	consumer string

	// Guarded by the broker's mu.
	next   []int // offset of each partition's next message
	turn   int   // partition that Receive looks at first
	paused []string
	cut    bool
	closed bool

	made int // of the topic

	// acked are positions in the checkpoint: all before them is acknowledged. Of Open and Ack.
	acked []int
}

func (s *Subscription) broker() *Broker { return s.source.Broker }

// connect finds the position.
func (s *Subscription) connect(ctx context.Context) error {
	b := s.broker()
	if err := b.pass(ctx); err != nil {
		return err
	}
	kept, err := s.readCheckpoint(ctx)
	if err != nil {
		return err
	}
	if err := s.begin(kept); err != nil || kept.was == nil {
		return err
	}
	return kept.was.Keep(ctx, strconv.Itoa(s.made))
}

// begin finds the position in the topic.
func (s *Subscription) begin(kept kept) error {
	b := s.broker()
	b.mu.Lock()
	defer b.mu.Unlock()
	t, err := b.find(s.name)
	if err != nil {
		return err
	}
	s.made = t.made
	fresh := t.consumers[s.consumer] == nil
	if lost := kept.had && (kept.made != strconv.Itoa(t.made) || kept.was != nil && fresh); lost {
		if s.source.Lost != subscribe.Earliest {
			return fmt.Errorf("the position is gone: set lost: earliest to go on: %w", subscribe.ErrStop)
		}
		s.session.Log.Info("messages are skipped", "topic", s.name)
		s.acked = nil
	} else if fresh && s.acked == nil {
		defer func() { subscribe.LogBeginning(s.session.Log, fmt.Sprintf("%s/%v", s.name, s.next)) }()
	}
	if kept.was != nil && fresh {
		t.consumers[s.consumer] = map[string]bool{}
	}
	s.next = make([]int, len(t.partitions))
	copy(s.next, s.acked)
	for i := range t.partitions {
		if err := s.skipTruncated(i, t.partitions[i]); err != nil {
			return err
		}
	}
	b.open[s] = struct{}{}
	return nil
}

// kept is what the checkpoint has.
type kept struct {
	was  *recall.Mark // that the broker has a position; nil: the checkpoint has it
	had  bool         // there was one
	made string       // the topic that it is of
}

// document is the checkpoint's content where that has the position.
type document struct {
	Made  int   `json:"made"`
	Acked []int `json:"acked"`
}

func (s *Subscription) readCheckpoint(ctx context.Context) (kept, error) {
	if s.source.Offsets != subscribe.Store {
		was, err := recall.ReadMark(ctx, s.session.Checkpoint, "topic "+s.name+", consumer "+s.consumer)
		if err != nil {
			return kept{}, err
		}
		return kept{was: was, had: was.Had(), made: was.Origin()}, nil
	}
	value, err := s.session.Checkpoint.Value(ctx)
	if err != nil || value == nil {
		return kept{}, err
	}
	var d document
	if err := json.Unmarshal(value, &d); err != nil {
		return kept{}, fmt.Errorf("the checkpoint of %s is not one of this source: %w", s.session.Key(), err)
	}
	s.acked = d.Acked
	return kept{had: true, made: strconv.Itoa(d.Made)}, nil
}

// skipTruncated goes on behind what is gone, or says that no one has decided to.
func (s *Subscription) skipTruncated(n int, p partition) error {
	if s.next[n] >= p.first || p.first == 0 {
		return nil
	}
	missing := 0
	for offset := s.next[n]; offset < p.first; offset++ {
		if !s.isAcked(place{n, offset}) {
			missing++
		}
	}
	if missing == 0 {
		s.next[n] = p.first
		return nil
	}
	err := fmt.Errorf("%d messages of partition %d were truncated before they were acknowledged", missing, n)
	if s.source.Lost != subscribe.Earliest {
		return fmt.Errorf("%w: set lost: earliest to go on behind them: %w", err, subscribe.ErrStop)
	}
	s.session.Log.Info("messages are skipped", "topic", s.name, "err", err)
	s.next[n] = p.first
	return nil
}

func (s *Subscription) isAcked(at place) bool {
	if s.source.Offsets == subscribe.Store {
		return at.partition < len(s.acked) && at.offset < s.acked[at.partition]
	}
	t := s.broker().topics[s.name]
	return t.consumers[s.consumer][t.id(s.name, at)]
}

func (t *topic) id(name string, at place) string {
	return fmt.Sprintf("%s/%d/%d", name, at.partition, at.offset)
}

// Receive waits for messages.
func (s *Subscription) Receive(ctx context.Context, most int) ([]subscribe.Message, error) {
	b := s.broker()
	for {
		if err := b.pass(ctx); err != nil {
			return nil, err
		}
		changed := b.change()
		messages, err := s.poll(most)
		if err != nil || len(messages) > 0 {
			return messages, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-changed:
		}
	}
}

// poll takes what is there, from each partition in turn.
func (s *Subscription) poll(most int) (taken []subscribe.Message, err error) {
	b := s.broker()
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := s.broken(); err != nil {
		return nil, err
	}
	t := b.topics[s.name]
	for range s.next {
		n := s.turn % len(s.next)
		s.turn++
		p := t.partitions[n]
		if slices.Contains(s.paused, strconv.Itoa(n)) {
			continue
		}
		if err := s.skipTruncated(n, p); err != nil {
			return nil, err
		}
		for ; s.next[n] < p.end() && len(taken) < most; s.next[n]++ {
			if !s.isAcked(place{n, s.next[n]}) {
				m := p.messages[s.next[n]-p.first]
				m.Headers, m.Delivered = maps.Clone(m.Headers), t.delivered[s.consumer][m.ID]
				m.Origin = strconv.Itoa(t.made)
				taken = append(taken, m)
			}
		}
	}
	return taken, nil
}

// Pause leaves partitions out.
func (s *Subscription) Pause(partitions []string) {
	b := s.broker()
	b.mu.Lock()
	defer b.mu.Unlock()
	s.paused = partitions
}

var errClosed = errors.New("the subscription is closed")

// broken says that the connection is. The caller has locked the broker.
func (s *Subscription) broken() error {
	switch {
	case s.closed:
		return errClosed
	case s.cut:
		return fmt.Errorf("topic %s: %w", s.name, ErrCut)
	}
	return nil
}

// Ack acknowledges messages.
func (s *Subscription) Ack(ctx context.Context, messages []subscribe.Message) error {
	b := s.broker()
	if err := b.pass(ctx); err != nil {
		return err
	}
	if s.source.Offsets == subscribe.Store {
		return s.ackInStore(ctx, messages)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := s.broken(); err != nil {
		return err
	}
	t := b.topics[s.name]
	acked := t.consumers[s.consumer]
	if acked == nil {
		acked = map[string]bool{}
		t.consumers[s.consumer] = acked
	}
	for _, m := range messages {
		at := m.Ref.(place)
		acked[t.id(s.name, at)] = true
		for offset := at.offset - 1; !s.source.Single && offset >= 0; offset-- {
			acked[t.id(s.name, place{at.partition, offset})] = true
		}
	}
	b.wake()
	return nil
}

func (s *Subscription) ackInStore(ctx context.Context, messages []subscribe.Message) error {
	acked := make([]int, len(s.next))
	copy(acked, s.acked)
	for _, m := range messages {
		at := m.Ref.(place)
		acked[at.partition] = max(acked[at.partition], at.offset+1)
	}
	value, err := json.Marshal(document{s.made, acked})
	if err != nil {
		return err
	}
	if err := s.session.Checkpoint.SetValue(ctx, value); err != nil {
		return err
	}
	b := s.broker()
	b.mu.Lock()
	defer b.mu.Unlock()
	s.acked = acked
	return nil
}

// Cumulative says whether an acknowledgement counts for all before it.
func (s *Subscription) Cumulative() bool { return !s.source.Single }

// DeadLetter publishes the message to another topic of the broker.
func (s *Subscription) DeadLetter(ctx context.Context, to string, m subscribe.Message, why subscribe.Why) error {
	b := s.broker()
	if err := b.pass(ctx); err != nil {
		return err
	}
	b.mu.Lock()
	err := s.broken()
	b.mu.Unlock()
	if err != nil {
		return err
	}
	headers := maps.Clone(m.Headers)
	if headers == nil {
		headers = map[string]string{}
	}
	maps.Copy(headers, why.Headers())
	m.Headers = headers
	if err := b.Publish(to, m); err != nil {
		return fmt.Errorf("publish dead letter %s: %w", m.ID, err)
	}
	return nil
}

// KeepDelivered keeps attempts at the broker, wherever positions are.
func (s *Subscription) KeepDelivered(ctx context.Context, messages []subscribe.Message) error {
	b := s.broker()
	if err := b.pass(ctx); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := s.broken(); err != nil {
		return err
	}
	kept := b.topics[s.name].delivered
	if kept[s.consumer] == nil {
		kept[s.consumer] = map[string]int{}
	}
	for _, m := range messages {
		kept[s.consumer][m.ID] = m.Delivered
	}
	return nil
}

// Lag counts what is not acknowledged.
func (s *Subscription) Lag(ctx context.Context) (subscribe.Lag, error) {
	b := s.broker()
	if err := b.pass(ctx); err != nil {
		return subscribe.Unknown, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := s.broken(); err != nil {
		return subscribe.Unknown, err
	}
	var lag subscribe.Lag
	for n, p := range b.topics[s.name].partitions {
		for i, m := range p.messages {
			if !s.isAcked(place{n, p.first + i}) {
				lag.Messages++
				lag.Seconds = max(lag.Seconds, time.Since(m.Time).Seconds())
			}
		}
	}
	return lag, nil
}

// Close ends the subscription.
func (s *Subscription) Close(context.Context) error {
	b := s.broker()
	b.mu.Lock()
	defer b.mu.Unlock()
	s.closed = true
	delete(b.open, s)
	return nil
}
