package kafka

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/shardctl/shardctl/internal/decode"
	"github.com/shardctl/shardctl/internal/discover"
	"github.com/shardctl/shardctl/internal/field"
)

// What Lister.Per may be.
const (
	PerTopic     = "topic"
	PerPartition = "partition"
)

// Lister finds topics, or their partitions. Texts are as written: $(NAME) in them is replaced at each look.
type Lister struct {
	Brokers []string // HOST:PORT each; one text may hold several, with commas between
	Topics  []string // patterns: see [discover.ParsePatterns]
	Per     string   // topic (default) or partition
	SASL    SASL
	TLS     TLS
}

// fields are what a configuration says of a lister.
func (l *Lister) fields() field.List {
	return field.List{
		brokers(&l.Brokers),
		{
			Name: "topics", Value: field.Patterns{To: &l.Topics},
			Doc: "Which topics: `*` stands for any text, `?` for one character; or a regular expression between slashes. " +
				"Internal ones are left out.",
		},
		{
			Name: "per", Value: field.Text{To: &l.Per, Default: PerTopic, OneOf: []string{PerTopic, PerPartition}},
			Doc: "A task for each `topic`, or for each `partition`.",
		},
		l.SASL.field(),
		l.TLS.field(),
	}
}

// ListerKind reads listers from a configuration.
var ListerKind = field.Kind(Name, "Finds the topics of a Kafka cluster, or their partitions.", (*Lister).fields,
	func(l *Lister, n *decode.Node) discover.Lister {
		l.TLS.enable(n)
		return *l
	})

// Kind is "kafka".
func (Lister) Kind() string { return Name }

// Validate checks every field that holds no variable. What comes in by variables is checked at each look.
func (l Lister) Validate() []decode.FieldError {
	return slices.Concat(l.fields().Check(), l.SASL.validate(), l.TLS.Validate(),
		discover.ValidatePatterns("topics", l.Topics))
}

// Print shows the fields as they are written.
func (l Lister) Print() any { return l.fields().Print() }

// List asks the brokers for all topics. Internal ones, and those whose names begin with "__", are left out.
func (l Lister) List(ctx context.Context, env discover.Env) ([]discover.Found, error) {
	err := l.fields().Expand(Name, env.Expand)
	patterns, noPatterns := env.Patterns("kafka.topics", l.Topics)
	opts, noOptions := l.options()
	if err := field.Join(err, noPatterns, noOptions); err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeoutCause(ctx, openWithin, errNoAnswer)
	defer cancel()
	topics, err := kadm.NewClient(client).ListTopics(ctx)
	if err == nil {
		err = topics.Error()
	}
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return nil, fmt.Errorf("brokers %s: ask for the topics: %w%s", strings.Join(l.Brokers, ","), err, advice(err))
	}
	found, err := l.found(topics, patterns)
	if err != nil {
		return nil, fmt.Errorf("brokers %s: the list of topics %w", strings.Join(l.Brokers, ","), err)
	}
	return found, nil
}

// maxListing is how large the answer with all topics may be, in bytes; a partition of three replicas takes some 50. The
// client refuses larger ones before it reads them.
const maxListing = 32 << 20

// listTries is how often a request is sent that fails for a reason that may pass. The next look comes anyway.
const listTries = 3

func (l Lister) options() ([]kgo.Opt, error) {
	security, err := secure(l.SASL, l.TLS)
	return append([]kgo.Opt{
		kgo.SeedBrokers(l.Brokers...),
		kgo.ClientID("shardctl"),
		kgo.SoftwareNameAndVersion("shardctl", "franz-go"),
		kgo.DisableClientMetrics(),
		kgo.MaxVersions(versions()),
		kgo.DialTimeout(dialWithin),
		kgo.RequestTimeoutOverhead(answerWithin),
		kgo.RequestRetries(listTries),
		kgo.RetryBackoffFn(pause),
		kgo.BrokerMaxReadBytes(maxListing),
		kgo.FetchMaxBytes(maxListing), // nothing is fetched; it may not be above the former
	}, security...), err
}

func (l Lister) found(topics kadm.TopicDetails, patterns discover.Patterns) (all []discover.Found, err error) {
	all = []discover.Found{}
	for _, topic := range topics.Sorted() {
		if topic.IsInternal || strings.HasPrefix(topic.Topic, "__") || !patterns.Match(topic.Topic) {
			continue
		}
		if l.Per != PerPartition {
			if all, err = discover.Append(all, discover.Found{Name: topic.Topic}); err != nil {
				return nil, err
			}
			continue
		}
		for _, p := range topic.Partitions.Numbers() {
			all, err = discover.Append(all, discover.Found{Name: topic.Topic, Partition: strconv.Itoa(int(p))})
			if err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}
