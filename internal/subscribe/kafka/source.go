// Package kafka is the source of messages "kafka": a topic of Apache Kafka, or some of its partitions.
//
// The partitions are assigned directly, and never by a consumer group's rebalance: who consumes is already decided by
// the task's lease. The group is a name that positions are kept under, with OffsetCommit outside of a generation.
//
// Delivery is at least once and in order per partition. A position is the offset of the next message to work on. Kept
// by the broker, a stale owner's late commit can move it back until the owner's next commit; the fencing token is named
// in each commit's metadata. Kept in the checkpoint (offsets: store), it cannot.
//
// Each subscription has a client of its own. A client shared by several would delay every partition that is added to
// it: the broker is busy with a long poll for the others. Removing one drops what is buffered for all.
package kafka

import (
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shardctl/shardctl/internal/decode"
	"github.com/shardctl/shardctl/internal/field"
	"github.com/shardctl/shardctl/internal/subscribe"
)

// Name is the field that chooses this source.
const Name = "kafka"

// What Source.Isolation may be.
const (
	ReadCommitted   = "read_committed"
	ReadUncommitted = "read_uncommitted"
)

// DefaultMaxBytes is Source.MaxBytes where that is 0.
const DefaultMaxBytes = 1 << 20

// Source is a topic, or some partitions of it. Texts are as written: $(NAME) in them is replaced at each Open. A zero
// field stands for its default.
type Source struct {
	Brokers    []string // HOST:PORT each; one text may hold several, with commas between
	TopicName  string
	Partitions []int32 // none: all
	Group      string  // that positions are kept under; default: shardctl.GROUP.TASK
	Start      string  // earliest (default), latest, or a time as RFC 3339 has it
	Missing    string  // when the log does not hold the position: stop (default), earliest, latest
	Offsets    string  // where positions are kept: broker (default), store
	Isolation  string  // read_committed (default), read_uncommitted
	MaxBytes   int     // of a partition in one answer; default: [DefaultMaxBytes]
	SASL       SASL
	TLS        TLS

	refresh time.Duration // of what the topic is, in tests; 0: refreshEvery
}

// Kind is "kafka".
func (Source) Kind() string { return Name }

// Topic is the topic's name, as written.
func (s Source) Topic() string { return s.TopicName }

// fields are what a configuration says of a source.
func (s *Source) fields() field.List {
	return field.List{
		brokers(&s.Brokers),
		{
			Name: "topic", Value: field.Text{To: &s.TopicName, Required: "is required", Valid: isTopic, Must: topicMust},
			Doc: "It must exist. It is never created.",
		},
		{
			Name: "partitions", Value: field.Numbers{To: &s.Partitions},
			Doc:   "Their numbers. Left out, partitions that are added later are taken up within 40 s, from their beginning.",
			Unset: "all",
		},
		{
			Name: "group", Value: field.Text{To: &s.Group},
			Doc:   "The name that positions are kept under. Each subscription of a topic has its own.",
			Unset: "`shardctl.GROUP.TASK`",
		},
		{
			Name: "start", Value: field.Text{
				To: &s.Start, Default: subscribe.Earliest, Valid: isStart,
				Pattern: `^(earliest|latest|[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt].+)$|\$\(`,
				Must:    "earliest, latest or a time such as 2026-01-31T12:00:00Z",
			},
			Doc: "Where to begin when no position is kept: `earliest`, `latest`, or a time as `2026-01-31T12:00:00Z`.",
		},
		{
			Name: "missing", Value: subscribe.MissingField(&s.Missing),
			Doc: "What to do when the log no longer holds the position: `earliest`, `latest`, or `stop`, which fails the task.",
		},
		{
			Name: "offsets", Value: subscribe.OffsetsField(&s.Offsets),
			Doc: "Where positions are kept: by the `broker`, or in the `store` beside the lock. " +
				"There a stale owner can move nothing back.",
		},
		{
			Name: "isolation", Value: field.Text{
				To: &s.Isolation, Default: ReadCommitted, OneOf: []string{ReadCommitted, ReadUncommitted},
			},
			Doc: "Of transactions: only what was committed, or also the rest (`read_uncommitted`).",
		},
		{
			Name: "maxBytes", Value: field.Number{
				To: &s.MaxBytes, Default: DefaultMaxBytes, Min: 1, Max: maxMaxBytes,
				Must: "a whole number of bytes from 1 to 268435456",
			},
			Doc: "Most bytes of a partition in one answer, up to 268435456. A larger message still arrives, alone.",
		},
		s.SASL.field(),
		s.TLS.field(),
	}
}

// maxMaxBytes keeps an answer of several partitions within what a broker's numbers can say.
const maxMaxBytes = 1 << 28

// brokers is the field of that name, of sources and of listers.
func brokers(to *[]string) field.Field {
	return field.Field{
		Name: "brokers", Value: field.Texts{
			To: to, Required: "is required: HOST:PORT of one broker or more", Form: "HOST:PORT", Valid: isAddress,
			Message: "must be HOST:PORT of a broker, without a scheme, or several with commas between",
		},
		Doc: "HOST:PORT of some brokers, by which the others are found: a list, or text as `\"a:9092,b:9092\"`.",
	}
}

func isAddress(text string) bool {
	host, port, err := net.SplitHostPort(text)
	number, portErr := strconv.ParseUint(port, 10, 16)
	return err == nil && portErr == nil && number > 0 && host != "" && !strings.ContainsAny(host, "/@ ")
}

const topicMust = "at most 249 letters, digits, '.', '_' and '-'"

var topicName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,249}$`)

func isTopic(name string) bool { return topicName.MatchString(name) && name != "." && name != ".." }

func isStart(text string) bool {
	_, _, err := parseStart(text)
	return err == nil
}

// Kind reads sources from a configuration.
var Kind = field.Kind(Name, "Receives the messages of a Kafka topic.", (*Source).fields,
	func(s *Source, n *decode.Node) subscribe.Source {
		s.TLS.enable(n)
		return *s
	})

// Print shows the fields as they are written.
func (s Source) Print() decode.Fields { return s.fields().Print() }

// Validate checks every field that holds no variable. What comes in by variables is checked at Open.
func (s Source) Validate() []decode.FieldError {
	return slices.Concat(s.fields().Check(), s.SASL.validate(), s.TLS.Validate())
}

// parseStart reads where to begin: the time is zero for earliest and latest.
func parseStart(text string) (latest bool, at time.Time, err error) {
	switch text {
	case "", subscribe.Earliest:
		return false, time.Time{}, nil
	case subscribe.Latest:
		return true, time.Time{}, nil
	}
	at, err = time.Parse(time.RFC3339, text)
	return false, at, err
}
