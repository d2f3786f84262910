package subscribe

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/shardctl/shardctl/internal/decode"
	"github.com/shardctl/shardctl/internal/field"
	"github.com/shardctl/shardctl/internal/kind"
	"github.com/shardctl/shardctl/internal/subscribe/internal/flow"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// What fields are when left out.
const (
	DefaultInFlight     = 1
	DefaultOrder        = OrderKey
	DefaultBackoffFirst = 200 * time.Millisecond
	DefaultBackoffMax   = 30 * time.Second
)

// The least that times may be. Less can only be a slip of the unit: each delivery fails, or one follows another without
// a pause.
const (
	MinTimeout      = 10 * time.Millisecond // of a delivery
	MinBackoffFirst = time.Millisecond
	MinBackoffMax   = 10 * time.Millisecond
)

// CheckTimeout says what is wrong with the field timeout of a sink. 0 stands for its default.
func CheckTimeout(timeout time.Duration) []decode.FieldError {
	return atLeast(MinTimeout, timeout, timeout == 0, "timeout")
}

func atLeast(least, is time.Duration, unset bool, path ...string) []decode.FieldError {
	if unset || is >= least {
		return nil
	}
	return []decode.FieldError{{Path: path, Must: "at least " + decode.Short(least)}}
}

// What Runner.Order may be.
const (
	OrderNone      = string(flow.OrderNone)
	OrderKey       = string(flow.OrderKey)
	OrderPartition = string(flow.OrderPartition)
)

// MaxInFlight is the largest maxInFlight.
const MaxInFlight = 100_000

// NewKind makes a kind of task of a source: it subscribes to what the source's field says, and delivers to the sink
// that the task's field deliver names.
func NewKind(source SourceKind, sinks ...SinkKind) kind.Kind { return taskKind{source, sinks} }

type taskKind struct {
	source SourceKind
	sinks  []SinkKind
}

func (k taskKind) Name() string { return k.source.Name() }

func (k taskKind) Schema() string { return k.source.Schema() }

// Fields are those of a subscription. It runs for as long as it is owned, and is opened again after errors: neither
// schedules nor restarts go with it.
func (k taskKind) Fields() kind.Fields {
	return kind.Fields{Owned: []string{fieldDeliver, fieldRetry, fieldInFlight, fieldOrder}}
}

// The fields of a task besides the source's.
const (
	fieldDeliver  = "deliver"
	fieldRetry    = "retry"
	fieldInFlight = "maxInFlight"
	fieldOrder    = "order"
	// of retry
	fieldDeadLetter = "deadLetter"
)

func (k taskKind) TaskFields() []kind.TaskField {
	var sinks []string
	for _, s := range k.sinks {
		sinks = append(sinks, fmt.Sprintf("%q: %s", s.Name(), strings.TrimSpace(s.Schema())))
	}
	deliver := fmt.Sprintf(`{
  "description": "Where a subscription's messages go: one of %s.",
  "type": "object",
  "additionalProperties": false,
  "patternProperties": {"^x-": true},
  "properties": {
%s
  }
}`, strings.Join(k.sinkNames(), ", "), strings.Join(sinks, ",\n"))
	fields := []kind.TaskField{{Name: fieldDeliver, Schema: deliver}}
	r := new(Runner)
	for _, f := range r.Retry.fields() {
		fields = append(fields, kind.TaskField{Name: f.Name, Retry: true, Schema: f.Schema()})
	}
	for _, f := range r.fields() {
		fields = append(fields, kind.TaskField{Name: f.Name, Schema: f.Schema()})
	}
	return fields
}

// fields are those of a task besides source, sink and retries.
func (r *Runner) fields() field.List {
	return field.List{
		{
			Name: fieldInFlight, Value: field.Number{To: &r.InFlight, Default: DefaultInFlight, Min: 1, Max: MaxInFlight},
			Doc: "Most messages of a subscription that are delivered and not durably acknowledged. " +
				"1 keeps strict order, more keeps that of order.",
		},
		{
			Name: fieldOrder, Value: field.Text{
				To: &r.Order, Default: DefaultOrder, OneOf: []string{OrderKey, OrderNone, OrderPartition},
			},
			Doc: "Which messages of a subscription are delivered one after another: those of one key, all of a partition, " +
				"or none. It counts with maxInFlight above 1.",
		},
	}
}

// fields are those of retry that a subscription has besides.
func (r *Retry) fields() field.List {
	topic := field.Field{
		Name: "topic", Value: field.Text{To: &r.DeadLetter}, Doc: "Topic, stream, subject or queue of the same broker.",
	}
	return field.List{{
		Name: fieldDeadLetter, Value: field.Mapping{
			Fields: field.List{topic}, Off: r.DeadLetter == "", Required: []string{"topic"},
		},
		Doc: "Where a message of a subscription goes that was not worked on in so many attempts. " +
			"Left out: the task fails and keeps its position.",
	}}
}

func (k taskKind) sinkNames() []string {
	names := make([]string, len(k.sinks))
	for i, s := range k.sinks {
		names[i] = s.Name()
	}
	return names
}

// Parse reads a Runner without a sink: ParseTask is to be called.
func (k taskKind) Parse(n *decode.Node, r *decode.Reader) kind.Runner {
	return Runner{Source: k.source.Parse(n, r)}
}

// ParseTask reads a Runner.
func (k taskKind) ParseTask(task *decode.Node, r *decode.Reader) kind.TaskRunner {
	retry := task.Get(fieldRetry)
	runner := Runner{
		Source: k.source.Parse(task.Get(k.Name()), r),
		Sink:   k.sink(task, r),
		Retry: Retry{
			Attempts: r.Count(retry.Get("attempts")),
			Backoff: tasks.Backoff{
				Initial: r.Positive(retry.At("backoff", "initial"), DefaultBackoffFirst, ""),
				Max:     r.Positive(retry.At("backoff", "max"), DefaultBackoffMax, ""),
			},
		},
	}
	runner.fields().Read(task, r)
	runner.Retry.fields().Read(retry, r)
	r.CheckStart(retry.Get(fieldDeadLetter), nil)
	return runner
}

// sink reads the one sink that deliver names.
func (k taskKind) sink(task *decode.Node, r *decode.Reader) Sink {
	deliver := task.Get(fieldDeliver)
	allowed := strings.Join(k.sinkNames(), ", ")
	if deliver == nil {
		r.AddAt(task.Place, decode.Under(task.Field(), fieldDeliver), "is required with %s: exactly one of %s",
			k.Name(),
			allowed)
		return nil
	}
	has := slices.DeleteFunc(slices.Clone(k.sinks), func(s SinkKind) bool { return deliver.Get(s.Name()) == nil })
	if len(has) == 1 {
		return has[0].Parse(deliver.Get(has[0].Name()), r)
	}
	if !deliver.IsBad() {
		names := make([]string, len(has))
		for i, s := range has {
			names[i] = s.Name()
		}
		r.Add(deliver, "has %s, must have exactly one of %s", cmp.Or(strings.Join(names, " and "), "nothing"), allowed)
	}
	return nil
}

// Runner delivers what a source gives to a sink, for as long as the task is owned. It implements [kind.TaskRunner].
type Runner struct {
	Source   Source
	Sink     Sink
	Retry    Retry
	InFlight int // most messages delivered and not durably acknowledged; 0: [DefaultInFlight]
	// Order says which messages are delivered one after another: [OrderKey], [OrderPartition] or [OrderNone]; empty:
	// [DefaultOrder].
	Order string
}

// Retry says what follows a delivery that failed.
type Retry struct {
	// Attempts is how often one message is delivered in all; 0: until it is worked on. After that it becomes a dead
	// letter, or, where there are none, the task fails for good and keeps its position.
	Attempts int
	Backoff  tasks.Backoff // between them; ResetAfter does not count
	// DeadLetter is the topic of the same broker for dead letters; empty: none.
	DeadLetter string
}

// Kind is the source's.
func (r Runner) Kind() string { return r.Source.Kind() }

// InProcess implements [tasks.InProcess].
func (r Runner) InProcess() {}

// NeedsRestart says whether anything differs.
func (r Runner) NeedsRestart(old tasks.Runner) bool { return !reflect.DeepEqual(old, tasks.Runner(r)) }

// Validate says what is wrong with the source, the sink and the retries.
func (r Runner) Validate(use kind.Use) []decode.FieldError {
	wrong := decode.Within(r.Kind(), r.Source.Validate())
	if r.Sink != nil {
		wrong = append(wrong, decode.Within(fieldDeliver, decode.Within(r.Sink.Kind(), r.Sink.Validate(use)))...)
	}
	wrong = append(wrong, r.fields().Check()...)
	r.InFlight = cmp.Or(r.InFlight, DefaultInFlight)
	if s, ok := r.Sink.(Batching); ok {
		if field, most := s.MostAtOnce(); most > r.InFlight {
			wrong = append(wrong, decode.FieldError{
				Path: []string{fieldDeliver, s.Kind(), field},
				Message: fmt.Sprintf("is %d and maxInFlight %d, must be at most maxInFlight: no more messages are there to "+
					"be delivered at once", most, r.InFlight),
			})
		}
	}
	backoff := r.Retry.Backoff
	wrong = append(wrong, atLeast(MinBackoffFirst, backoff.Initial, false, fieldRetry, "backoff", "initial")...)
	wrong = append(wrong, atLeast(MinBackoffMax, backoff.Max, false, fieldRetry, "backoff", "max")...)
	if first, most := backoff.Initial, backoff.Max; first > most {
		wrong = append(wrong, decode.FieldError{
			Path: []string{fieldRetry, "backoff"},
			Message: fmt.Sprintf("has initial %s and max %s, must have initial at most max", decode.Short(first),
				decode.Short(most)),
		})
	}
	if r.Retry.DeadLetter != "" && r.Retry.Attempts == 0 {
		wrong = append(wrong, decode.FieldError{
			Path:    []string{fieldRetry, fieldDeadLetter},
			Message: "needs retry.attempts: without it a message is tried until it is worked on, and never a dead letter",
		})
	}
	return wrong
}

// Subscribes implements [tasks.Subscriber].
func (r Runner) Subscribes() {}

// Print shows the source's fields.
func (r Runner) Print(kind.Use) any { return r.Source.Print() }

// PrintTask shows the fields besides.
func (r Runner) PrintTask(use kind.Use) decode.Fields {
	retry := decode.Pairs("backoff", decode.Pairs("initial", r.Retry.Backoff.Initial, "max", r.Retry.Backoff.Max))
	if r.Retry.Attempts > 0 {
		retry = append(decode.Pairs("attempts", r.Retry.Attempts), retry...)
	}
	fields := decode.Pairs(
		fieldDeliver, decode.Pairs(r.Sink.Kind(), r.Sink.Print(use)),
		fieldRetry, append(retry, r.Retry.fields().Print()...),
	)
	return append(fields, r.fields().Print()...)
}

var _ kind.TaskKind = taskKind{}
