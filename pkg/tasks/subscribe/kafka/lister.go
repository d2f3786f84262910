package kafka

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/shardctl/shardctl/pkg/tasks/decode"
	"github.com/shardctl/shardctl/pkg/tasks/discover"
	"github.com/shardctl/shardctl/pkg/tasks/internal/access"
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

// ListerKind reads listers from a configuration.
type ListerKind struct{}

var _ discover.Kind = ListerKind{}

//go:embed lister.schema.json
var listerSchema string

// Name is "kafka".
func (ListerKind) Name() string { return Name }

// Schema is that of the mapping with brokers, topics and so on.
func (ListerKind) Schema() string { return listerSchema }

// Parse reads a [Lister].
func (ListerKind) Parse(n *decode.Node, r *decode.Reader) discover.Lister {
	r.CheckStart(n, nil)
	return Lister{
		Brokers: r.TextOrList(n.Get("brokers")),
		Topics:  r.TextOrList(n.Get("topics")),
		Per:     r.Text(n.Get("per"), PerTopic),
		SASL:    parseSASL(n.Get("sasl"), r),
		TLS:     parseTLS(n.Get("tls"), r),
	}
}

// Kind is "kafka".
func (Lister) Kind() string { return Name }

// Validate checks every field that holds no variable. What comes in by variables is checked at each look.
func (l Lister) Validate() []decode.FieldError {
	wrong := slices.Concat(Source{Brokers: l.Brokers}.validateBrokers(), l.SASL.validate(), l.TLS.files().Validate(),
		oneOf("per", l.Per, PerTopic, PerPartition))
	return append(wrong, discover.ValidatePatterns("topics", l.Topics)...)
}

// Print shows the fields as they are written.
func (l Lister) Print() any {
	fields := decode.Pairs("brokers", l.Brokers, "topics", l.Topics, "per", cmp.Or(l.Per, PerTopic))
	return append(fields, printSecurity(l.SASL, l.TLS)...)
}

// List asks the brokers for all topics. Internal ones, and those whose names begin with "__", are left out.
func (l Lister) List(ctx context.Context, env discover.Env) ([]discover.Found, error) {
	e := access.NewExpander(Name, env.Expand)
	brokers := access.Addresses(e.Texts("brokers", l.Brokers))
	patterns, err := env.Patterns("kafka.topics", l.Topics)
	e.Add(err)
	opts := l.options(e, brokers)
	if len(brokers) == 0 || slices.ContainsFunc(brokers, func(b string) bool { return !isAddress(b) }) {
		e.Add(errors.New("kafka.brokers: must be " + addressMust))
	}
	if err := e.Err(); err != nil {
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
		return nil, fmt.Errorf("brokers %s: ask for the topics: %w%s", strings.Join(brokers, ","), err, advice(err))
	}
	return l.found(topics, patterns), nil
}

// listTries is how often a request is sent that fails for a reason that may pass. The next look comes anyway.
const listTries = 3

func (l Lister) options(e *access.Expander, brokers []string) []kgo.Opt {
	return append([]kgo.Opt{
		kgo.SeedBrokers(brokers...),
		kgo.ClientID("shardctl"),
		kgo.SoftwareNameAndVersion("shardctl", "franz-go"),
		kgo.DisableClientMetrics(),
		kgo.MaxVersions(versions()),
		kgo.DialTimeout(dialWithin),
		kgo.RequestTimeoutOverhead(answerWithin),
		kgo.RequestRetries(listTries),
		kgo.RetryBackoffFn(pause),
	}, secure(e, l.SASL, l.TLS)...)
}

func (l Lister) found(topics kadm.TopicDetails, patterns discover.Patterns) []discover.Found {
	all := []discover.Found{}
	for _, topic := range topics.Sorted() {
		if topic.IsInternal || strings.HasPrefix(topic.Topic, "__") || !patterns.Match(topic.Topic) {
			continue
		}
		if l.Per != PerPartition {
			all = append(all, discover.Found{Name: topic.Topic})
			continue
		}
		for _, p := range topic.Partitions.Numbers() {
			all = append(all, discover.Found{Name: topic.Topic, Partition: strconv.Itoa(int(p))})
		}
	}
	return all
}
