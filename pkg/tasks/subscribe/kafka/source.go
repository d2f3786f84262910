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
	"cmp"
	_ "embed"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shardctl/shardctl/pkg/tasks/decode"
	"github.com/shardctl/shardctl/pkg/tasks/internal/access"
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

// maxMaxBytes keeps an answer of several partitions within what a broker's numbers can say.
const maxMaxBytes = 1 << 28

var topicName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,249}$`)

// Validate checks every field that holds no variable. What comes in by variables is checked at Open.
func (s Source) Validate() []decode.FieldError {
	wrong := slices.Concat(s.validateBrokers(), s.validatePartitions(), s.SASL.validate(), s.TLS.files().Validate())
	if err := checkTopic(s.TopicName); err != "" && !decode.HasVariables(s.TopicName) {
		wrong = append(wrong, decode.FieldError{Path: []string{"topic"}, Message: err})
	}
	if _, _, err := parseStart(s.Start); err != nil {
		wrong = append(wrong, decode.FieldError{Path: []string{"start"}, Must: startMust})
	}
	wrong = append(wrong, oneOf("missing", s.Missing, Earliest, Latest, Stop)...)
	wrong = append(wrong, oneOf("offsets", s.Offsets, Broker, Store)...)
	wrong = append(wrong, oneOf("isolation", s.Isolation, ReadCommitted, ReadUncommitted)...)
	if s.MaxBytes < 0 || s.MaxBytes > maxMaxBytes {
		must := fmt.Sprintf("a whole number of bytes from 1 to %d", maxMaxBytes)
		wrong = append(wrong, decode.FieldError{Path: []string{"maxBytes"}, Must: must})
	}
	return wrong
}

func (s Source) validateBrokers() []decode.FieldError {
	path := []string{"brokers"}
	if len(s.Brokers) == 0 || len(s.Brokers) == 1 && strings.TrimSpace(s.Brokers[0]) == "" {
		return []decode.FieldError{{Path: path, Message: "is required: HOST:PORT of one broker or more"}}
	}
	var wrong []decode.FieldError
	for i, text := range s.Brokers {
		if decode.HasVariables(text) {
			continue
		}
		parts := access.Addresses([]string{text})
		if len(parts) == 0 || slices.ContainsFunc(parts, func(part string) bool { return !isAddress(part) }) {
			at := path // which may be text, and not a list
			if len(s.Brokers) > 1 {
				at = []string{"brokers", strconv.Itoa(i)}
			}
			wrong = append(wrong, decode.FieldError{Path: at, Message: "must be " + addressMust})
		}
	}
	return wrong
}

const addressMust = "HOST:PORT of a broker, without a scheme, or several with commas between"

func isAddress(text string) bool {
	host, port, err := net.SplitHostPort(text)
	number, portErr := strconv.ParseUint(port, 10, 16)
	return err == nil && portErr == nil && number > 0 && host != "" && !strings.ContainsAny(host, "/@ ")
}

func (s Source) validatePartitions() []decode.FieldError {
	var wrong []decode.FieldError
	for i, p := range s.Partitions {
		path := []string{"partitions", strconv.Itoa(i)}
		switch {
		case p < 0:
			wrong = append(wrong, decode.FieldError{Path: path, Must: "a whole number from 0"})
		case slices.Contains(s.Partitions[:i], p):
			message := fmt.Sprintf("is %d, which stands there twice", p)
			wrong = append(wrong, decode.FieldError{Path: path, Message: message})
		}
	}
	return wrong
}

// checkTopic says what is wrong with a topic's name; empty: nothing.
func checkTopic(name string) string {
	switch {
	case name == "":
		return "is required"
	case !topicName.MatchString(name) || name == "." || name == "..":
		return fmt.Sprintf("is %q, must be at most 249 letters, digits, '.', '_' and '-'", decode.Clipped(name))
	}
	return ""
}

func oneOf(field, value string, allowed ...string) []decode.FieldError {
	if value == "" || slices.Contains(allowed, value) {
		return nil
	}
	last := len(allowed) - 1
	must := strings.Join(allowed[:last], ", ") + " or " + allowed[last]
	return []decode.FieldError{{Path: []string{field}, Must: must}}
}

const startMust = "earliest, latest or a time such as 2026-01-31T12:00:00Z"

// parseStart reads where to begin: the time is zero for earliest and latest.
func parseStart(text string) (latest bool, at time.Time, err error) {
	switch text {
	case "", Earliest:
		return false, time.Time{}, nil
	case Latest:
		return true, time.Time{}, nil
	}
	at, err = time.Parse(time.RFC3339, text)
	return false, at, err
}
