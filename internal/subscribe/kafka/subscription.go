package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/shardctl/shardctl/internal/clock"
	"github.com/shardctl/shardctl/internal/field"
	"github.com/shardctl/shardctl/internal/subscribe"
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

	deadLetters deadLetters
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
		opening: o, places: newPlaces(begin), deadLetters: deadLetters{client: o.client},
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
	s.health.set("absent", s.explain(absent.report()))
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
			return s.explain(err)
		}
	}
	return s.explain(field.Join(errs...))
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
		return s.explain(err)
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

// mostAside is how many messages of a partition are kept aside at least before it is fetched from no more.
const mostAside = 1000

// aside keeps messages of partitions that Receive leaves out. A partition that the client has paused is fetched from
// again only with the next fetch, which may wait for long where the others are idle. So a short pause is none of the
// client's. Receive and Pause use it, one at a time.
type aside struct {
	client   *kgo.Client
	topic    string
	maxBytes int // of a partition, after which it is fetched from no more
	out      []string
	of       map[string]*stash
}

// stash are messages of one partition, in order.
type stash struct {
	messages []subscribe.Message
	bytes    int
}

// Pause leaves partitions out.
func (s *subscription) Pause(partitions []string) { s.aside.leaveOut(partitions) }

func (a *aside) leaveOut(partitions []string) {
	a.out = partitions
	resume := a.client.PauseFetchPartitions(nil)
	resume[a.topic] = slices.DeleteFunc(resume[a.topic],
		func(p int32) bool { return slices.Contains(a.out, nameOf(p)) })
	if len(resume[a.topic]) > 0 {
		a.client.ResumeFetchPartitions(resume)
	}
}

// put keeps the messages of partitions that are left out, and returns the others.
func (a *aside) put(messages []subscribe.Message) []subscribe.Message {
	if len(a.out) == 0 {
		return messages
	}
	return slices.DeleteFunc(messages, func(m subscribe.Message) bool {
		if !slices.Contains(a.out, m.Partition) {
			return false
		}
		kept := a.of[m.Partition]
		if kept == nil {
			kept = &stash{}
			a.of[m.Partition] = kept
		}
		kept.messages = append(kept.messages, m)
		kept.bytes += len(m.Body)
		if len(kept.messages) >= mostAside || kept.bytes >= a.maxBytes {
			a.client.PauseFetchPartitions(map[string][]int32{a.topic: {m.Ref.(ref).partition}})
		}
		return true
	})
}

// take takes what was kept of partitions that are not left out any more. It comes before what is fetched.
func (a *aside) take(most int) (taken []subscribe.Message) {
	for partition, kept := range a.of {
		if slices.Contains(a.out, partition) {
			continue
		}
		n := min(most-len(taken), len(kept.messages))
		taken = append(taken, kept.messages[:n]...)
		if kept.messages = kept.messages[n:]; len(kept.messages) == 0 {
			delete(a.of, partition)
		}
	}
	return taken
}

// Lag counts the offsets between what was acknowledged and the end of the log: of what is readable, where
// transactions are open. Offsets that hold no message (compacted, aborted) count until the position is past them.
// Seconds are the age of the oldest message that was received and not acknowledged; not known where messages wait at
// the broker alone.
func (s *subscription) Lag(ctx context.Context) (subscribe.Lag, error) {
	if absent := *s.absent.Load(); len(absent) > 0 {
		return subscribe.Unknown, s.explain(absent)
	}
	isolation := int8(0)
	if s.isolation == kgo.ReadCommitted() {
		isolation = 1
	}
	ends, err := listOffsets(ctx, s.client, s.topic, s.places.partitions(), atEnd, isolation)
	if err != nil {
		return subscribe.Unknown, s.explain(err)
	}
	behind, oldest := s.places.behind(ends)
	lag := subscribe.Lag{Messages: behind, Seconds: subscribe.Unknown.Seconds}
	switch {
	case behind == 0:
		lag.Seconds = 0
	case !oldest.IsZero():
		lag.Seconds = max(0, clock.Wall().Sub(oldest).Seconds())
	}
	return lag, nil
}
