package nats

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/shardctl/shardctl/internal/subscribe"
	"github.com/shardctl/shardctl/internal/subscribe/internal/recall"
)

// openWithin is how long all requests of an Open may take.
const openWithin = 2 * answerWithin

// The metadata of a consumer.
const (
	metaTask     = "shardctl-task"
	metaClean    = "shardctl-clean"    // up to there, all that the filter lets through is acknowledged
	metaAttempts = "shardctl-attempts" // at messages by their places, as package recall writes them
)

// family are the consumers of one subscription. Each Open makes one, named NAME-TOKEN-NUMBER, and deletes the others.
type family struct {
	stream   jetstream.Stream
	name     string
	filter   string
	task     string
	token    int64
	inFlight int
	log      logr.Logger
}

// member is one consumer of a family.
type member struct {
	token  int64
	number int
	info   *jetstream.ConsumerInfo
}

// members are the consumers that are there. It fails when they are another task's, or a newer owner's.
func (f *family) members(ctx context.Context) ([]member, error) {
	pattern := regexp.MustCompile("^" + regexp.QuoteMeta(f.name) + `-(\d+)-(\d+)$`)
	var all []member
	names := f.stream.ConsumerNames(ctx)
	for name := range names.Name() {
		parts := pattern.FindStringSubmatch(name)
		if parts == nil {
			continue
		}
		consumer, err := f.stream.Consumer(ctx, name)
		if errors.Is(err, jetstream.ErrConsumerNotFound) {
			continue // an earlier owner has deleted it
		}
		if err != nil {
			return nil, err
		}
		m := member{info: consumer.CachedInfo()}
		m.token, _ = strconv.ParseInt(parts[1], 10, 64)
		m.number, _ = strconv.Atoi(parts[2])
		switch task := m.info.Config.Metadata[metaTask]; {
		case task != f.task:
			return nil, fmt.Errorf("the consumer %s is of task %q: set another nats.consumer", name, task)
		case m.token > f.token:
			return nil, fmt.Errorf("the consumer %s is of a newer owner, with token %d: this one is no longer the owner",
				name, m.token)
		}
		all = append(all, m)
	}
	return all, names.Err()
}

// takeOver makes a consumer that begins where the last one was left. Given is the last place that was given to anyone.
// Kept remembers that there was one: those of a stream go with it.
func (f *family) takeOver(ctx context.Context, s Source, kept subscribe.Checkpoint) (
	c jetstream.Consumer, given uint64, err error,
) {
	info := f.stream.CachedInfo() // before the consumers are looked at
	members, err := f.members(ctx)
	if err != nil {
		return nil, 0, err
	}
	was, err := recall.ReadMark(ctx, kept, "stream "+info.Config.Name+", consumer "+f.name)
	if err != nil {
		return nil, 0, err
	}
	number := 0
	for _, m := range members {
		given = max(given, m.info.Delivered.Stream)
		if m.token == f.token {
			number = max(number, m.number+1)
		}
	}
	config := f.config(number)
	if len(members) > 0 {
		if kept := newest(members).info.Config.Metadata[metaAttempts]; kept != "" {
			config.Metadata[metaAttempts] = kept
		}
	}
	queue := info.Config.Retention == jetstream.WorkQueuePolicy
	switch {
	case queue && (s.Start != subscribe.Earliest):
		return nil, 0, errors.New("a stream with work queue retention has no past: nats.start must be earliest")
	case queue: // what is in it is not acknowledged
	case len(members) == 0 && was.Had():
		err = f.skip(&config, s.Missing, goneWith(was, info), info.State)
	case len(members) == 0:
		var at string
		if at, err = begin(&config, s.Start, info.State); err == nil {
			subscribe.LogBeginning(f.log, info.Config.Name+"/"+at)
		}
	default:
		err = f.proceed(&config, s.Missing, info, members)
	}
	if err != nil {
		return nil, 0, err
	}
	if queue { // it takes one consumer only
		if err := f.remove(ctx, members); err != nil {
			return nil, 0, err
		}
	}
	if c, err = f.stream.CreateConsumer(ctx, config); err != nil {
		return nil, 0, fmt.Errorf("consumer %s: %w", config.Durable, err)
	}
	if !queue {
		if err = f.remove(ctx, members); err == nil {
			err = was.Keep(ctx, madeAt(info))
		}
	}
	return c, given, err
}

// madeAt is when a stream was made: the server has no other ID for it.
func madeAt(info *jetstream.StreamInfo) string { return strconv.FormatInt(info.Created.UnixNano(), 10) }

// goneWith says in words why there is no consumer any more.
func goneWith(was *recall.Mark, info *jetstream.StreamInfo) string {
	if was.Origin() != madeAt(info) {
		return "the stream was made again, and the position went with the one before"
	}
	return "the consumer was deleted, and the position with it"
}

// Nothing is given again by the server itself: that would break the order. It comes again to the next consumer.
const ackWait = 30 * 24 * time.Hour

// ahead is how many messages are asked for before they are wanted.
const ahead = 128

func (f *family) config(number int) jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Durable:       fmt.Sprintf("%s-%d-%d", f.name, f.token, number),
		Description:   "shardctl task " + f.task,
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       ackWait,
		MaxDeliver:    -1,
		FilterSubject: f.filter,
		MaxAckPending: f.inFlight + 2*ahead,
		Metadata:      map[string]string{metaTask: f.task},
	}
}

// begin sets where a subscription without a position begins. At is the sequence number there, or the time as written.
func begin(config *jetstream.ConsumerConfig, start string, state jetstream.StreamState) (at string, err error) {
	switch start {
	case subscribe.Earliest:
		config.DeliverPolicy = jetstream.DeliverAllPolicy
		return strconv.FormatUint(max(state.FirstSeq, 1), 10), nil
	case subscribe.Latest:
		config.DeliverPolicy = jetstream.DeliverNewPolicy
		return strconv.FormatUint(state.LastSeq+1, 10), nil
	}
	since, err := time.Parse(time.RFC3339, start)
	if err != nil {
		return "", fmt.Errorf("nats.start: %w", err)
	}
	config.DeliverPolicy, config.OptStartTime = jetstream.DeliverByStartTimePolicy, &since
	return start, nil
}

// remove deletes consumers. Their acknowledgements go nowhere from then on.
func (f *family) remove(ctx context.Context, members []member) error {
	for _, m := range members {
		err := f.stream.DeleteConsumer(ctx, m.info.Name)
		if err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
			return fmt.Errorf("delete consumer %s: %w", m.info.Name, err)
		}
	}
	return nil
}

// newest is the member that was made last. Others are left over from an Open that was cut short, or were made by a
// stale owner: what is acknowledged there does not count.
func newest(members []member) member {
	return slices.MaxFunc(members, func(a, b member) int {
		return cmp.Or(cmp.Compare(a.token, b.token), cmp.Compare(a.number, b.number))
	})
}

// floor is the place up to which everything is acknowledged.
func floor(info *jetstream.ConsumerInfo) uint64 {
	clean, _ := strconv.ParseUint(info.Config.Metadata[metaClean], 10, 64) // 0 where there is none
	return max(clean, info.AckFloor.Stream)
}

// lost says in words what is gone after a place; empty: nothing is.
func lost(place uint64, info *jetstream.StreamInfo) string {
	state := info.State
	switch {
	case place > state.LastSeq:
		return fmt.Sprintf("the stream ends at %d, before the position %d: it lost its end", state.LastSeq, place)
	case info.Config.Retention != jetstream.LimitsPolicy:
		return "" // messages go as they are acknowledged
	case state.FirstSeq > place+1:
		return fmt.Sprintf("up to %d messages after the position %d were removed before they were read",
			state.FirstSeq-place-1, place)
	default:
		return ""
	}
}

// skip sets where a subscription goes on whose position is gone, or stops it.
func (f *family) skip(config *jetstream.ConsumerConfig, missing, what string, state jetstream.StreamState) error {
	if missing == subscribe.Stop {
		return fmt.Errorf("%w: %s: set nats.missing to earliest or latest to go on", subscribe.ErrStop, what)
	}
	f.log.Info("Messages are missing, and the subscription goes on without them", "message", what, "to", missing)
	if missing == subscribe.Latest {
		config.DeliverPolicy, config.OptStartSeq = jetstream.DeliverNewPolicy, 0
	} else {
		config.DeliverPolicy, config.OptStartSeq = jetstream.DeliverByStartSequencePolicy, max(state.FirstSeq, 1)
	}
	return nil
}

// proceed sets where a subscription goes on that has been open before.
func (f *family) proceed(
	config *jetstream.ConsumerConfig, missing string, info *jetstream.StreamInfo, members []member,
) error {
	last := newest(members).info
	place := floor(last)
	config.DeliverPolicy, config.OptStartSeq = jetstream.DeliverByStartSequencePolicy, place+1
	if what := lost(place, info); what != "" {
		return f.skip(config, missing, what, info.State)
	}
	if last.NumPending == 0 && last.NumAckPending == 0 {
		// So that messages of other subjects do not count as missing once they are removed.
		config.OptStartSeq = max(place, info.State.LastSeq) + 1
	}
	return nil
}

// keepClean notes in the consumer that everything is acknowledged up to the end of the stream. In a stream with several
// subjects the acknowledged place stays where the last message of this subscription was. Once others' messages after it
// are removed, they would count as missing. It writes seldom: when the stream begins after what was noted.
func (f *family) keepClean(ctx context.Context, stream jetstream.Stream, info *jetstream.ConsumerInfo) error {
	state := stream.CachedInfo().State // from before the consumer was idle
	place := floor(info)
	if state.FirstSeq <= place+1 || state.LastSeq <= place {
		return nil
	}
	config := info.Config
	config.Metadata = map[string]string{metaTask: f.task, metaClean: strconv.FormatUint(state.LastSeq, 10)}
	_, err := stream.UpdateConsumer(ctx, config)
	return err
}
