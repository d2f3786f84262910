package kafka

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/shardctl/shardctl/pkg/tasks/internal/access"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
)

// subscription is an open one.
type subscription struct {
	*opening
	places *places
	absent atomic.Pointer[absentError] // partitions that are not begun with yet
	failed error                       // of a poll that had messages as well: for the next Receive
	aside  aside

	// ended ends with what is wrong as its cause, or when the subscription is closed.
	ended context.Context //nolint:containedctx // it is what a poll and the watcher end with
	end   context.CancelCauseFunc
	loop  sync.WaitGroup

	letters letters
}

var (
	_ subscribe.Lagging = (*subscription)(nil)
	_ subscribe.Pausing = (*subscription)(nil)
	_ subscribe.Keeping = (*subscription)(nil)
)

// ref is a message's place, for Ack.
type ref struct {
	partition int32
	offset    int64
	epoch     int32
}

// name is the message's in what is kept of attempts at messages of its partition.
func (r ref) name() string { return strconv.FormatInt(r.offset, 10) }

func refOf(r *kgo.Record) ref { return ref{r.Partition, r.Offset, r.LeaderEpoch} }

func newSubscription(o *opening, begin map[int32]mark, absent absentError) *subscription {
	s := &subscription{
		opening: o, places: newPlaces(begin), letters: letters{client: o.client},
		aside: aside{client: o.client, topic: o.topic, maxBytes: o.maxBytes, of: map[string]*stash{}},
	}
	s.wait(absent)
	s.ended, s.end = context.WithCancelCause(context.Background())
	w := &watcher{subscription: s, is: o.topicIs, all: len(o.partitions) == 0}
	s.loop.Go(func() { w.run(s.ended) })
	return s
}

// wait notes which partitions are absent, and says so.
func (s *subscription) wait(absent absentError) {
	s.absent.Store(&absent)
	s.health.set("absent", s.worded(absent.told()))
}

// Receive waits for messages.
func (s *subscription) Receive(ctx context.Context, most int) ([]subscribe.Message, error) {
	poll, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ended, cancel)() //nolint:contextcheck // either ends the poll
	for {
		if err := s.failed; err != nil {
			s.failed = nil
			return nil, err
		}
		if messages := s.aside.take(most); len(messages) > 0 {
			return messages, nil
		}
		fetches := s.client.PollRecords(poll, most)
		messages := s.aside.put(s.take(fetches))
		s.failed = s.failure(poll, fetches)
		switch {
		case ctx.Err() != nil && len(messages) == 0:
			return nil, ctx.Err()
		case s.ended.Err() != nil && len(messages) == 0:
			return nil, context.Cause(s.ended) //nolint:contextcheck // as above
		}
		if len(messages) > 0 {
			return messages, nil
		}
	}
}

// take makes messages of records, and notes them.
func (s *subscription) take(fetches kgo.Fetches) []subscribe.Message {
	messages := make([]subscribe.Message, 0, fetches.NumRecords())
	fetches.EachRecord(func(r *kgo.Record) {
		message := !r.Attrs.IsControl()
		s.places.seen(refOf(r), r.Timestamp, message)
		if message {
			m := messageOf(r)
			m.Origin, m.Delivered = s.topicIs.origin(), s.places.delivered(refOf(r))
			messages = append(messages, m)
		}
	})
	return messages
}

const contentType = "content-type"

// positionOf is what people see as a position.
func positionOf(topic string, partition int32, offset int64) string {
	return topic + "/" + strconv.Itoa(int(partition)) + "/" + strconv.FormatInt(offset, 10)
}

func nameOf(partition int32) string { return strconv.Itoa(int(partition)) }

func messageOf(r *kgo.Record) subscribe.Message {
	m := subscribe.Message{
		ID:        positionOf(r.Topic, r.Partition, r.Offset),
		Partition: nameOf(r.Partition),
		Key:       r.Key,
		Body:      r.Value,
		Time:      r.Timestamp,
		Ref:       refOf(r),
	}
	for _, h := range r.Headers {
		if strings.EqualFold(h.Key, contentType) {
			m.Type = string(h.Value)
			continue
		}
		if m.Headers == nil {
			m.Headers = make(map[string]string, len(r.Headers))
		}
		m.Headers[h.Key] = string(h.Value)
	}
	return m
}

// failure is what is wrong with the partitions of a poll. The client goes on by itself after all that may pass.
func (s *subscription) failure(ctx context.Context, fetches kgo.Fetches) error {
	var errs []error
	lost := false
	fetches.EachError(func(_ string, partition int32, err error) {
		var loss *kgo.ErrDataLoss
		switch {
		case ctx.Err() != nil && errors.Is(err, ctx.Err()):
			return
		case errors.Is(err, kerr.OffsetOutOfRange), errors.As(err, &loss):
			lost = true
			err = fmt.Errorf("the log does not hold the next message any more: %w", err)
		case errors.Is(err, kerr.UnknownTopicID), errors.Is(err, kerr.UnknownTopicOrPartition):
			err = fmt.Errorf("the topic was deleted, or deleted and created again: %w", err)
		}
		if partition >= 0 {
			err = fmt.Errorf("partition %d: %w", partition, err)
		}
		errs = append(errs, err)
	})
	if lost {
		// Where to go on is decided now, and kept for the next Open, or an error says that somebody has to decide.
		if _, _, err := s.begin(ctx, kept{marks: s.places.kept()}, s.places.partitions()); err != nil {
			return s.worded(err)
		}
	}
	return s.worded(access.Join(errs))
}

// Cumulative says that what is acknowledged is a position.
func (s *subscription) Cumulative() bool { return true }

// Ack keeps the places after the messages, by one commit.
func (s *subscription) Ack(ctx context.Context, messages []subscribe.Message) error {
	refs := make([]ref, 0, len(messages))
	for _, m := range messages {
		if r, ok := m.Ref.(ref); ok {
			refs = append(refs, r)
		}
	}
	s.places.acknowledged(refs)
	return s.save(ctx)
}

// KeepDelivered keeps attempts with the positions.
func (s *subscription) KeepDelivered(ctx context.Context, messages []subscribe.Message) error {
	s.places.keep(messages)
	return s.save(ctx)
}

// save keeps what has changed, by one commit.
func (s *subscription) save(ctx context.Context) error {
	changed := s.places.unsaved()
	if len(changed) == 0 {
		return nil
	}
	if err := s.kept.save(ctx, changed); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return s.worded(err)
	}
	s.places.wereSaved(changed)
	return nil
}

var errClosed = errors.New("the subscription is closed")

// Close ends the connections. What was received and not acknowledged comes again, by its position.
func (s *subscription) Close(context.Context) error {
	s.end(errClosed)
	s.loop.Wait()
	s.health.end()
	s.client.Close()
	return nil
}
