package amqp

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/shardctl/shardctl/internal/subscribe"
	"github.com/shardctl/shardctl/internal/subscribe/internal/recall"
)

// stream is a subscription to a stream, whose position is kept in the checkpoint.
type stream struct {
	*consumer
	checkpoint subscribe.Checkpoint
	next       atomic.Int64 // offset of the first message that is not acknowledged; unknown: not known yet
	before     string       // digest of the message before it; empty: not known. Of Ack and KeepDelivered
	origin     string       // of the messages; see position
	attempts   *recall.Attempts
}

const unknown = -1

// openStream reads a stream from its position, or from where the configuration begins.
func openStream(ctx context.Context, c *consumer, s Stream, checkpoint subscribe.Checkpoint) (*stream, error) {
	if err := c.open(ctx); err != nil {
		return nil, err
	}
	o := &opening{consumer: c, Stream: s, checkpoint: checkpoint}
	from, next, err := o.from(ctx)
	if err != nil {
		return nil, err
	}
	opened := &stream{
		consumer: c, checkpoint: checkpoint, attempts: recall.ParseAttempts(string(o.attempts)), before: o.before,
		origin: o.origin,
	}
	opened.next.Store(next)
	return opened, c.consume(ctx, false, amqp091.Table{offsetHeader: from})
}

// Cumulative is true: the position is that of the last message.
func (s *stream) Cumulative() bool { return true }

// Ack keeps the position behind the last message. What is then sent to the broker only has it send more. Where that
// fails the connection has ended, as Receive says, and the position is kept nevertheless.
func (s *stream) Ack(ctx context.Context, messages []subscribe.Message) error {
	if len(messages) == 0 {
		return nil
	}
	d, ok := messages[len(messages)-1].Ref.(*amqp091.Delivery)
	if !ok {
		return fmt.Errorf("stream %q: acknowledge a message of another source", s.queue)
	}
	offset, _ := offsetOf(d)
	before := digest(d)
	if err := s.keep(ctx, offset+1, before); err != nil {
		return err
	}
	s.next.Store(offset + 1)
	s.before = before
	s.inbox.acked(tags(messages))
	_ = s.channel.do(ctx, func() error { return s.channel.ch.Ack(d.DeliveryTag, true) })
	return nil
}

// keep keeps a position with the digest of the message before it, and the attempts at messages from there on.
func (s *stream) keep(ctx context.Context, next int64, before string) error {
	s.attempts.DropBefore(next)
	return position{
		s.queue, s.origin, next, before, json.RawMessage(s.attempts.String()),
	}.keep(ctx, s.checkpoint)
}

// digest is that of a message as it was published. Headers that begin with x- are the broker's, and may be others once
// it is a newer one.
func digest(d *amqp091.Delivery) string {
	fields := map[string]string{"\x00type": d.ContentType, "\x00id": d.MessageId}
	for name, value := range headers(d) {
		if !strings.HasPrefix(name, "x-") {
			fields[name] = value
		}
	}
	if !d.Timestamp.IsZero() {
		fields["\x00time"] = strconv.FormatInt(d.Timestamp.Unix(), 10)
	}
	return recall.Digest(d.Body, fields)
}

// offsetName is a message's name among attempts.
func offsetName(m subscribe.Message) string {
	d, ok := m.Ref.(*amqp091.Delivery)
	if !ok {
		return ""
	}
	offset, _ := offsetOf(d)
	return strconv.FormatInt(offset, 10)
}

// Receive returns what the broker has sent.
func (s *stream) Receive(ctx context.Context, most int) ([]subscribe.Message, error) {
	messages, err := s.consumer.Receive(ctx, most)
	for i, m := range messages {
		messages[i].Origin, messages[i].Delivered = s.origin, s.attempts.Of(offsetName(m))
	}
	return messages, err
}

// KeepDelivered keeps attempts with the position.
func (s *stream) KeepDelivered(ctx context.Context, messages []subscribe.Message) error {
	now := map[string]int{}
	for _, m := range messages {
		now[offsetName(m)] = m.Delivered
	}
	s.attempts.Update(now)
	next := s.next.Load()
	if next == unknown {
		_, first := s.inbox.unacked()
		next = first.offset
	}
	return s.keep(ctx, next, s.before)
}

// Lag counts the messages from the first that is not acknowledged to the newest. The age is that of the first, by the
// publisher's timestamp, to the second.
func (s *stream) Lag(ctx context.Context) (subscribe.Lag, error) {
	end, err := (&probe{s.consumer}).end(ctx)
	if err != nil {
		return subscribe.Unknown, err
	}
	next := s.next.Load()
	here, first := s.inbox.unacked()
	if next == unknown && here > 0 {
		next = first.offset
	}
	if next == unknown {
		return subscribe.Unknown, nil
	}
	return lag(max(0, end-next), first.at), nil
}

// opening finds where to begin.
type opening struct {
	*consumer
	Stream
	checkpoint subscribe.Checkpoint
	attempts   json.RawMessage // that were kept with a position that the stream has
	before     string          // digest of the message before the position; empty: not known
	origin     string          // of the messages; see position
}

// from is the argument of the consumer, and the offset that it stands for where that is known.
func (o *opening) from(ctx context.Context) (from any, next int64, err error) {
	kept, err := readPosition(ctx, o.checkpoint, o.queue)
	if err != nil {
		return nil, unknown, err
	}
	if kept == nil {
		return o.beginAtStart(ctx)
	}
	o.origin = kept.Origin
	gone, another, err := o.gone(ctx, kept)
	if err != nil || gone == "" {
		o.attempts, o.before = kept.Attempts, kept.Before
		return kept.Next, kept.Next, err
	}
	err = fmt.Errorf("offset %d, where it was left, is gone: %s", kept.Next, gone)
	if o.Missing == subscribe.Stop {
		return nil, unknown, o.link.explain(o.queue, fmt.Errorf("%w: %w: set amqp.stream.missing to earliest or latest",
			subscribe.ErrStop, err))
	}
	o.session.Log.Error(o.link.explain(o.queue, err), "Messages are missing", "position", o.Missing)
	if another {
		o.origin = rand.Text()[:10]
	}
	if from, next, err = o.begin(ctx, o.Missing); err == nil {
		err = o.keep(ctx, next)
	}
	return from, next, err
}

// keep keeps where it begins: what is latest now is not at the next Open, nor what is gone.
func (o *opening) keep(ctx context.Context, next int64) error {
	return position{Stream: o.queue, Origin: o.origin, Next: next, Before: o.before}.keep(ctx, o.checkpoint)
}

// beginAtStart is from where no position is kept. It writes a line.
func (o *opening) beginAtStart(ctx context.Context) (from any, next int64, err error) {
	if from, next, err = o.begin(ctx, o.Start); err == nil && o.Start == subscribe.Latest {
		err = o.keep(ctx, next)
	}
	switch {
	case err != nil:
	case next == unknown:
		subscribe.LogBeginning(o.session.Log, o.queue+"/"+o.Start)
	default:
		subscribe.LogBeginning(o.session.Log, fmt.Sprintf("%s/%d", o.queue, next))
	}
	return from, next, err
}

// begin is from for a start.
func (o *opening) begin(ctx context.Context, start string) (from any, next int64, err error) {
	p := &probe{o.consumer}
	switch from, err = parseStart(start); {
	case err != nil:
		return nil, unknown, err
	case start == subscribe.Earliest:
		next, _, err = p.begin(ctx)
		return from, next, err
	case start == subscribe.Latest:
		if next, err = p.endAfter(ctx, 1); err != nil {
			return nil, unknown, err
		}
		o.before, err = p.digestAt(ctx, next-1)
		return next, next, err
	}
	if offset, ok := from.(int64); ok {
		return from, offset, nil
	}
	return from, unknown, nil
}

// publishDelay is how long what was published may take to be seen.
const publishDelay = time.Second

// gone says why the stream no longer has a position; empty: it has it. The broker would take the nearest without a
// word, or wait for one that a new stream of the name reaches in years. A new stream that is longer has another message
// before the position. Another says that it is a new one, or has lost its end and goes on with other messages.
func (o *opening) gone(ctx context.Context, kept *position) (why string, another bool, err error) {
	next := kept.Next
	p := &probe{o.consumer}
	begin, some, err := p.begin(ctx)
	if err != nil {
		return "", false, err
	}
	if some && next < begin {
		return fmt.Sprintf("it begins at %d, messages in between have been removed", begin), false, nil
	}
	end, err := p.endAfter(ctx, next)
	switch {
	case err != nil:
		return "", false, err
	case next <= end && kept.Before != "" && some && begin < next:
		is, err := p.digestAt(ctx, next-1)
		if err != nil || is == "" || is == kept.Before {
			return "", false, err
		}
		return fmt.Sprintf("it was made again: message %d is not the one that was read", next-1), true, nil
	case next <= end:
		return "", false, nil
	case end == 0:
		// RabbitMQ may show nothing of a stream from the start of its node until the next message is published.
		return "", false, o.link.explain(o.queue,
			fmt.Errorf("the stream is empty, and was left at offset %d: wait until it is "+
				"there, or, if it was made again, publish to it or give the task another name", next))
	}
	return fmt.Sprintf("it ends before %d, it was made again or its end is lost", end), true, nil
}

// position is what the checkpoint holds: how far a stream was read. A queue has attempts there, and no position.
type position struct {
	Stream string `json:"stream"` // or queue
	// Origin distinguishes messages from those of streams of this name before it; empty: there were none.
	Origin string `json:"origin,omitempty"`
	Next   int64  `json:"next"`             // offset of the first message that is not acknowledged
	Before string `json:"before,omitempty"` // digest of the message before it
	// Attempts at messages from there on are JSON of package recall: by offset, or in a queue by ID.
	Attempts json.RawMessage `json:"attempts,omitempty"`
}

// readPosition is nil where none was kept, or one of another stream: the task then reads a new one.
func readPosition(ctx context.Context, checkpoint subscribe.Checkpoint, stream string) (*position, error) {
	value, err := checkpoint.Value(ctx)
	if err != nil {
		return nil, fmt.Errorf("stream %q: read the position: %w", stream, err)
	}
	if len(value) == 0 || recall.IsMark(value) {
		return nil, nil //nolint:nilnil // nothing was kept, and nothing is wrong
	}
	var p position
	if err := json.Unmarshal(value, &p); err != nil || p.Stream == "" || p.Next < 0 {
		return nil, fmt.Errorf("stream %q: %w: the position kept with the task's lock is not one of a stream: "+
			"give the task another name, or remove what is kept", stream, subscribe.ErrStop)
	}
	if p.Stream != stream {
		return nil, nil //nolint:nilnil // as above
	}
	return &p, nil
}

// keep returns once the position is kept.
func (p position) keep(ctx context.Context, checkpoint subscribe.Checkpoint) error {
	value, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("stream %q: %w", p.Stream, err)
	}
	if err := checkpoint.SetValue(ctx, value); err != nil {
		return fmt.Errorf("stream %q: keep offset %d: %w", p.Stream, p.Next, err)
	}
	return nil
}

const (
	// chunkSize is how many messages of a stream's end are read at once.
	chunkSize = 256
	// maxChunks bounds how often: a stream that grows has no end.
	maxChunks = 64
	// firstWithin is how long the first message of a chunk may take. In an empty stream none comes.
	firstWithin = 300 * time.Millisecond
)

// probe finds a stream's ends by reading them. The broker does not show them otherwise by this protocol.
type probe struct{ *consumer }

// begin is the offset of the oldest message; false: there is none.
func (p *probe) begin(ctx context.Context) (int64, bool, error) {
	seen, err := p.readFrom(ctx, "first", 1)
	if err != nil || len(seen) == 0 {
		return 0, false, err
	}
	return seen[0].offset, true, nil
}

// digestAt is the digest of the message of an offset; empty: it is not there.
func (p *probe) digestAt(ctx context.Context, offset int64) (string, error) {
	if offset < 0 {
		return "", nil
	}
	seen, err := p.readFrom(ctx, offset, 1)
	if err != nil || len(seen) == 0 || seen[0].offset != offset {
		return "", err
	}
	return seen[0].digest, nil
}

// seen is a message that was read to look at it.
type seen struct {
	offset int64
	digest string // where only one was asked for
}

// end is the offset that the next message will have, or a little less while many are being published.
func (p *probe) end(ctx context.Context) (int64, error) {
	var end int64
	from := any("last") // the last chunk, which may be of thousands
	for range maxChunks {
		seen, err := p.readFrom(ctx, from, chunkSize)
		if err != nil || len(seen) == 0 {
			return end, err
		}
		if end = seen[len(seen)-1].offset + 1; len(seen) < chunkSize {
			break
		}
		from = end
	}
	return end, nil
}

// endAfter is the end, looked at again where it is before least: what was just published may not be seen at once.
func (p *probe) endAfter(ctx context.Context, least int64) (int64, error) {
	end, err := p.end(ctx)
	if err != nil || end >= least {
		return end, err
	}
	select {
	case <-time.After(publishDelay):
		return p.end(ctx)
	case <-ctx.Done():
		return 0, ctx.Err() //nolint:wrapcheck // the caller's own
	}
}

// readFrom reads up to most messages on a channel of its own, and returns what is known of them.
func (p *probe) readFrom(ctx context.Context, from any, most int) ([]seen, error) {
	channel, err := p.link.channel(ctx)
	if err != nil {
		return nil, p.link.explain(p.queue, err)
	}
	var all []seen
	err = channel.do(ctx, func() (err error) {
		all, err = p.read(channel.ch, from, most)
		return err
	})
	if err != nil {
		return nil, p.link.explain(p.queue, err)
	}
	return all, nil
}

// read reads what is there. Deliveries come ahead of the answer to a request that was sent once the first had come.
func (p *probe) read(ch *amqp091.Channel, from any, most int) ([]seen, error) {
	defer func() { _ = ch.Close() }() // where it fails, the connection has ended
	if err := ch.Qos(most, 0, false); err != nil {
		return nil, err //nolint:wrapcheck // explained by the caller
	}
	const tag = "shardctl probe"
	deliveries, err := ch.Consume(p.queue, tag, false, false, false, false, amqp091.Table{offsetHeader: from})
	if err != nil {
		return nil, err //nolint:wrapcheck // explained by the caller
	}
	var all []seen
	add := func(d *amqp091.Delivery) {
		if offset, ok := offsetOf(d); ok {
			one := seen{offset: offset}
			if most == 1 {
				one.digest = digest(d)
			}
			all = append(all, one)
		}
	}
	select {
	case d, ok := <-deliveries:
		if !ok {
			return nil, errEnded
		}
		add(&d)
	case <-time.After(firstWithin):
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for d := range deliveries {
			add(&d)
		}
	}()
	if err := ch.Cancel(tag, false); err != nil {
		_ = ch.Close()
		<-done
		return nil, err //nolint:wrapcheck // explained by the caller
	}
	<-done
	return all, nil
}
