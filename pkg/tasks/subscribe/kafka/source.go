package kafka

import (
	"cmp"
	_ "embed"
	"time"

	"github.com/shardctl/shardctl/pkg/tasks/decode"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
)

// Name is the field that chooses this source.
const Name = "kafka"

// What some fields may hold.
const (
	Earliest        = "earliest"
	Latest          = "latest"
	Stop            = "stop"
	Broker          = "broker"
	Store           = "store"
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

// Kind reads sources from a configuration.
type Kind struct{}

var _ subscribe.SourceKind = Kind{}

//go:embed schema.json
var schema string

// Name is "kafka".
func (Kind) Name() string { return Name }

// Schema is that of the mapping with brokers, topic and so on.
func (Kind) Schema() string { return schema }

// Parse reads a [Source].
func (Kind) Parse(n *decode.Node, r *decode.Reader) subscribe.Source {
	r.CheckStart(n, nil)
	return Source{
		Brokers:    r.TextOrList(n.Get("brokers")),
		TopicName:  r.Text(n.Get("topic"), ""),
		Partitions: numbers(n.Get("partitions"), r),
		Group:      r.Text(n.Get("group"), ""),
		Start:      r.Text(n.Get("start"), Earliest),
		Missing:    r.Text(n.Get("missing"), Stop),
		Offsets:    r.Text(n.Get("offsets"), Broker),
		Isolation:  r.Text(n.Get("isolation"), ReadCommitted),
		MaxBytes:   cmp.Or(r.Count(n.Get("maxBytes")), DefaultMaxBytes),
		SASL:       parseSASL(n.Get("sasl"), r),
		TLS:        parseTLS(n.Get("tls"), r),
	}
}

func numbers(n *decode.Node, r *decode.Reader) []int32 {
	var list []int32
	for _, item := range n.List() {
		list = append(list, int32(r.Number(item))) //nolint:gosec // G115: the schema has a maximum
	}
	return list
}

// Print shows the fields as they are written.
func (s Source) Print() decode.Fields {
	fields := decode.Pairs(
		"brokers", s.Brokers,
		"topic", s.TopicName,
		"partitions", numbersOrNil(s.Partitions),
		"group", decode.TextOrNil(s.Group),
		"start", cmp.Or(s.Start, Earliest),
		"missing", cmp.Or(s.Missing, Stop),
		"offsets", cmp.Or(s.Offsets, Broker),
		"isolation", cmp.Or(s.Isolation, ReadCommitted),
		"maxBytes", cmp.Or(s.MaxBytes, DefaultMaxBytes),
	)
	return append(fields, printSecurity(s.SASL, s.TLS)...)
}

func numbersOrNil(list []int32) any {
	if len(list) == 0 {
		return nil
	}
	return list
}
