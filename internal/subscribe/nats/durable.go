package nats

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	natsio "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/shardctl/shardctl/internal/subscribe"
	"github.com/shardctl/shardctl/internal/subscribe/internal/recall"
)

// Open connects and begins where the subscription was left. It creates no stream.
func (s Source) Open(ctx context.Context, session subscribe.Session) (subscribe.Subscription, error) {
	s, err := s.expand(session)
	if err != nil {
		return nil, err
	}
	topic := s.Topic()
	l, err := dial(ctx, s.cluster(), topic, session)
	if err != nil {
		return nil, err
	}
	var sub subscribe.Subscription
	if s.Stream == "" {
		sub, err = openSubject(ctx, l, s.Subject)
	} else {
		sub, err = openStream(ctx, l, s)
	}
	if err != nil {
		l.Close()
		return nil, l.explain(err)
	}
	return sub, nil
}

func openStream(ctx context.Context, l *link, s Source) (*durable, error) {
	ctx, cancel := context.WithTimeout(ctx, openWithin)
	defer cancel()
	js, err := jetstream.New(l.Conn)
	if err != nil {
		return nil, err
	}
	stream, err := js.Stream(ctx, s.Stream)
	if err != nil {
		return nil, err
	}
	f := &family{
		stream: stream, name: s.Consumer, filter: s.Subject, task: string(l.session.Key()), token: l.session.Token,
		inFlight: l.session.InFlight, log: l.session.Log,
	}
	consumer, given, err := f.takeOver(ctx, s, l.session.Checkpoint)
	if err != nil {
		return nil, err
	}
	return newDurable(l, js, f, consumer, given)
}

const (
	// pullFor is how long one request for messages stands.
	pullFor = 30 * time.Second
	// heartbeat is how often the server shows meanwhile that it is there. Two that are missing are an error.
	heartbeat = 5 * time.Second
	// pullBytes is the most that one request brings, unless a single message may be larger.
	pullBytes = 4 << 20
)

// durable is a subscription of a stream.
type durable struct {
	*link
	js       jetstream.JetStream
	family   *family
	stream   string
	origin   string // of the stream
	consumer jetstream.Consumer
	messages jetstream.MessagesContext
	given    uint64 // up to there messages were given to an earlier consumer
	last     seen
	attempts *recall.Attempts // by places in the stream
}

// seen is what is known of the last message that came.
type seen struct {
	number  uint64 // of the consumer, without gaps
	place   uint64 // in the stream
	pending uint64 // how many followed it
}

func newDurable(
	l *link, js jetstream.JetStream, f *family, consumer jetstream.Consumer, given uint64,
) (*durable, error) {
	bytes := max(pullBytes, 2*int(l.MaxPayload()))
	messages, err := consumer.Messages(
		jetstream.PullMaxMessagesWithBytesLimit(ahead, bytes), jetstream.PullExpiry(pullFor),
		jetstream.PullHeartbeat(heartbeat), jetstream.WithMessagesErrOnMissingHeartbeat(true),
	)
	if err != nil {
		return nil, err
	}
	info := consumer.CachedInfo()
	return &durable{
		attempts: recall.ParseAttempts(info.Config.Metadata[metaAttempts]),
		link:     l, js: js, family: f, stream: info.Stream, consumer: consumer, messages: messages,
		given: given, origin: madeAt(f.stream.CachedInfo()),
	}, nil
}

// Receive waits for one message.
func (d *durable) Receive(ctx context.Context, _ int) ([]subscribe.Message, error) {
	msg, err := d.messages.Next(jetstream.NextContext(ctx))
	if err != nil {
		return nil, d.explainIn(ctx, err)
	}
	meta, err := msg.Metadata()
	if err != nil {
		return nil, d.explain(err)
	}
	if err := d.follows(ctx, meta); err != nil {
		return nil, d.explain(err)
	}
	m := messageOf(msg.Subject(), msg.Headers(), msg.Data())
	place := placeOf(meta)
	m.ID, m.Delivered = d.stream+"/"+place, d.attempts.Of(place)
	m.Origin = d.origin
	m.Time, m.Ref = meta.Timestamp.UTC(), msg
	m.Again = meta.NumDelivered > 1 || meta.Sequence.Stream <= d.given
	return []subscribe.Message{m}, nil
}

func placeOf(meta *jetstream.MsgMetadata) string { return strconv.FormatUint(meta.Sequence.Stream, 10) }

// follows checks that no message is missing before one. It goes on when ctx ends: the message has been taken.
func (d *durable) follows(ctx context.Context, meta *jetstream.MsgMetadata) error {
	last := d.last
	d.last = seen{number: meta.Sequence.Consumer, place: meta.Sequence.Stream, pending: meta.NumPending}
	switch {
	case meta.Sequence.Consumer != last.number+1:
		return fmt.Errorf("message %d of the consumer came after %d: those between were lost on the way, and come again",
			meta.Sequence.Consumer, last.number)
	case last.number == 0 || last.pending == 0 || meta.Sequence.Stream == last.place+1:
		return nil
	}
	// It was behind, and the places between are another subject's, or were removed.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerWithin)
	defer cancel()
	info, err := d.js.Stream(ctx, d.stream)
	if err != nil {
		return err
	}
	if what := lost(last.place, info.CachedInfo()); what != "" {
		return fmt.Errorf("%s: nats.missing says how to go on", what)
	}
	return nil
}

// Ack acknowledges messages, and returns when the server has confirmed the last of them. It takes them in order.
func (d *durable) Ack(ctx context.Context, messages []subscribe.Message) error {
	if err := ctx.Err(); err != nil {
		return err // an acknowledgement is sent without a look at it
	}
	within, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	for i, m := range messages {
		msg, ok := m.Ref.(jetstream.Msg)
		if !ok {
			return errors.New("a message of another source was acknowledged")
		}
		var err error
		if i < len(messages)-1 {
			err = msg.Ack()
		} else {
			err = msg.DoubleAck(within)
		}
		if errors.Is(err, natsio.ErrNoResponders) {
			err = fmt.Errorf("%w: %s", err, consumerGone)
		}
		if err != nil {
			return d.explainIn(ctx, err)
		}
	}
	return nil
}

// KeepDelivered keeps attempts in the consumer's metadata. Its own count begins again with each owner.
func (d *durable) KeepDelivered(ctx context.Context, messages []subscribe.Message) error {
	within, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	now := map[string]int{}
	for _, m := range messages {
		if msg, ok := m.Ref.(jetstream.Msg); ok {
			if meta, err := msg.Metadata(); err == nil {
				now[placeOf(meta)] = m.Delivered
			}
		}
	}
	d.attempts.Update(now)
	consumer, err := d.js.Consumer(within, d.stream, d.consumer.CachedInfo().Name)
	if err != nil {
		return d.explainIn(ctx, err)
	}
	info := consumer.CachedInfo()
	d.attempts.DropBefore(int64(info.AckFloor.Stream) + 1) //nolint:gosec // G115: no stream has so many messages
	config := info.Config
	config.Metadata = map[string]string{} // a server may know none
	maps.Copy(config.Metadata, info.Config.Metadata)
	config.Metadata[metaAttempts] = d.attempts.String()
	_, err = d.js.UpdateConsumer(within, d.stream, config)
	return d.explainIn(ctx, err)
}

// Cumulative is true: the next consumer begins after the first message that is not acknowledged.
func (d *durable) Cumulative() bool { return true }

// DeadLetter publishes to a subject that a stream takes.
func (d *durable) DeadLetter(ctx context.Context, to string, m subscribe.Message, why subscribe.Why) error {
	within, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	_, err := d.js.PublishMsg(within, letter(to, m, why.Headers()), jetstream.WithRetryAttempts(0))
	if err != nil {
		return fmt.Errorf("dead letter to subject %s: %w", to, d.explainIn(ctx, err))
	}
	return nil
}

// Lag is what the consumer has not given, and what is not acknowledged.
func (d *durable) Lag(ctx context.Context) (subscribe.Lag, error) {
	stream, err := d.js.Stream(ctx, d.stream)
	if err != nil {
		return subscribe.Unknown, d.explainIn(ctx, err)
	}
	consumer, err := stream.Consumer(ctx, d.consumer.CachedInfo().Name)
	if err != nil {
		return subscribe.Unknown, d.explainIn(ctx, err)
	}
	info := consumer.CachedInfo()
	//nolint:gosec // G115: a count of messages
	lag := subscribe.Lag{Messages: int64(info.NumPending) + int64(info.NumAckPending)}
	if lag.Messages == 0 {
		return lag, d.explainIn(ctx, d.family.keepClean(ctx, stream, info))
	}
	filter := d.family.filter
	if filter == "" {
		filter = ">"
	}
	first, err := stream.GetMsg(ctx, info.AckFloor.Stream+1, jetstream.WithGetMsgSubject(filter))
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		lag.Seconds = -1 // it was removed since
	case err != nil:
		return subscribe.Unknown, d.explainIn(ctx, err)
	default:
		lag.Seconds = max(0, info.TimeStamp.Sub(first.Time).Seconds())
	}
	return lag, nil
}

// Close ends the connection. What was not acknowledged comes again to the next consumer.
func (d *durable) Close(context.Context) error {
	d.messages.Stop()
	d.Conn.Close()
	return nil
}

// typeHeader holds a message's media type.
const typeHeader = "Content-Type"

// messageOf is what a message of NATS holds. Its key is the subject: order is kept within one.
func messageOf(subject string, header natsio.Header, body []byte) subscribe.Message {
	m := subscribe.Message{Key: []byte(subject), Body: body, Headers: make(map[string]string, len(header))}
	for name, values := range header {
		if name == typeHeader && len(values) == 1 {
			m.Type = values[0]
		} else {
			m.Headers[name] = strings.Join(values, ", ")
		}
	}
	return m
}

// oneLine takes the place of what ends a header.
var oneLine = strings.NewReplacer("\r\n", " ", "\n", " ", "\r", " ")

// letter is a message for a subject of dead letters.
func letter(to string, m subscribe.Message, headers map[string]string) *natsio.Msg {
	msg := natsio.NewMsg(to)
	msg.Data = m.Body
	for _, all := range []map[string]string{m.Headers, headers} {
		for _, name := range slices.Sorted(maps.Keys(all)) {
			// What JetStream takes for a request to itself, such as a rollup, was for the other stream.
			if !strings.HasPrefix(name, "Nats-") {
				msg.Header.Set(name, oneLine.Replace(all[name]))
			}
		}
	}
	if m.Type != "" {
		msg.Header.Set(typeHeader, m.Type)
	}
	return msg
}
