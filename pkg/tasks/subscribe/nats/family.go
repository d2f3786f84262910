package nats

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
)

// openWithin is how long all requests of an Open may take.
const openWithin = 2 * answerWithin

// The metadata of a consumer.
const (
	metaTask     = "shardctl-task"
	metaClean    = "shardctl-clean"    // up to there, all that the filter lets through is acknowledged
	metaAttempts = "shardctl-attempts" // at messages by their places, as package attempts writes them
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
func (f *family) takeOver(ctx context.Context, set settings) (c jetstream.Consumer, given uint64, err error) {
	info := f.stream.CachedInfo() // before the consumers are looked at
	members, err := f.members(ctx)
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
	case queue && (set.start != Earliest):
		return nil, 0, errors.New("a stream with work queue retention has no past: nats.start must be earliest")
	case queue: // what is in it is not acknowledged
	case len(members) == 0:
		var at string
		if at, err = begin(&config, set.start, info.State); err == nil {
			subscribe.LogBeginning(f.log, info.Config.Name+"/"+at)
		}
	default:
		err = f.proceed(&config, set.missing, info, members)
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
		err = f.remove(ctx, members)
	}
	return c, given, err
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
	case Earliest:
		config.DeliverPolicy = jetstream.DeliverAllPolicy
		return strconv.FormatUint(max(state.FirstSeq, 1), 10), nil
	case Latest:
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
