// Package cloudevents is the sink that sends messages to an HTTP endpoint as CloudEvents 1.0.
//
// One message is a request in binary mode: its body is the request's body, its attributes are headers. Several are a
// request in batched mode. A message that is an event itself is a request in structured mode. A status of 2xx says that
// all of them were worked on.
package cloudevents

import (
	"cmp"
	"context"
	"net/url"
	"time"

	"github.com/shardctl/shardctl/internal/decode"
	"github.com/shardctl/shardctl/internal/endpoint"
	"github.com/shardctl/shardctl/internal/field"
	"github.com/shardctl/shardctl/internal/kind"
	"github.com/shardctl/shardctl/internal/subscribe"
	"github.com/shardctl/shardctl/internal/taskrun"
)

// Name is the field of deliver that chooses this sink.
const Name = endpoint.Name

// What fields are when left out, and the most messages in one request.
const (
	DefaultTimeout   = 10 * time.Second
	DefaultBatchSize = 1
	MaxBatchSize     = 1000
)

// Kind reads sinks from a configuration.
var Kind = field.Kind(Name,
	"Sends messages to a URL as CloudEvents 1.0: one in binary mode, several in batched mode.", (*Sink).fields,
	func(s *Sink, _ *decode.Node) subscribe.Sink { return *s })

// fields are what a configuration says of a sink.
func (s *Sink) fields() field.List {
	timeout := field.Duration{To: &s.Timeout, Default: DefaultTimeout, Min: subscribe.MinTimeout}
	batchSize := field.Number{To: &s.BatchSize, Default: DefaultBatchSize, Min: 1, Max: MaxBatchSize}
	return append(s.Fields(field.Field{Name: "timeout", Value: timeout, Doc: "Of one request."}),
		field.Field{Name: "batchSize", Value: batchSize, Doc: "Most messages in one request."})
}

// Sink sends messages to an endpoint. Fields are as written: $(NAME) in them is replaced at each request.
type Sink struct {
	endpoint.Endpoint
	Timeout   time.Duration // of one request; 0: the default
	BatchSize int           // most messages in one request, from 1 to MaxBatchSize; 0: the default
}

// Kind is "http".
func (s Sink) Kind() string { return Name }

// Validate checks the URL, the method, the headers and the numbers.
func (s Sink) Validate(kind.Use) []decode.FieldError {
	return append(s.fields().Check(), s.Endpoint.Validate("ce-", "content-type")...)
}

// MostAtOnce is the batchSize.
func (s Sink) MostAtOnce() (field string, most int) {
	return "batchSize", cmp.Or(s.BatchSize, DefaultBatchSize)
}

// Print shows the fields as they are written.
func (s Sink) Print(kind.Use) any { return s.fields().Print() }

// Open checks that a request can be made: that its variables are set and its files are there. It sends nothing.
func (s Sink) Open(ctx context.Context, env taskrun.Env, from string) (subscribe.Receiver, error) {
	s.Timeout, s.BatchSize = cmp.Or(s.Timeout, DefaultTimeout), cmp.Or(s.BatchSize, DefaultBatchSize)
	source := url.URL{Path: "/shardctl/" + from}
	r := &receiver{
		sink: s, env: env, source: source.EscapedPath(), described: endpoint.Described(env, eventMessage),
		same: sameOf(source.EscapedPath()),
	}
	if _, err := s.Request(ctx, env, nil); err != nil {
		return nil, err
	}
	if _, err := s.Client(env); err != nil {
		return nil, err
	}
	return r, nil
}
