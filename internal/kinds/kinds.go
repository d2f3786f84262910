// Package kinds is what tasks can run in the program, and what discover can ask: one line for each kind.
package kinds

import (
	"sync"

	"github.com/shardctl/shardctl/internal/discover"
	"github.com/shardctl/shardctl/internal/discover/listers"
	"github.com/shardctl/shardctl/internal/kind"
	"github.com/shardctl/shardctl/internal/runners/assign"
	"github.com/shardctl/shardctl/internal/runners/callback"
	"github.com/shardctl/shardctl/internal/runners/exec"
	"github.com/shardctl/shardctl/internal/runners/httptask"
	"github.com/shardctl/shardctl/internal/subscribe"
	"github.com/shardctl/shardctl/internal/subscribe/amqp"
	"github.com/shardctl/shardctl/internal/subscribe/cloudevents"
	"github.com/shardctl/shardctl/internal/subscribe/function"
	"github.com/shardctl/shardctl/internal/subscribe/jsonlines"
	"github.com/shardctl/shardctl/internal/subscribe/kafka"
	"github.com/shardctl/shardctl/internal/subscribe/mqtt"
	"github.com/shardctl/shardctl/internal/subscribe/nats"
	"github.com/shardctl/shardctl/internal/subscribe/redis"
)

// Sources are what tasks can subscribe to.
func Sources() []subscribe.SourceKind {
	return []subscribe.SourceKind{
		amqp.Kind,
		kafka.Kind,
		mqtt.Kind,
		nats.Kind,
		redis.Kind,
	}
}

// Sinks are where messages can go.
func Sinks() []subscribe.SinkKind {
	return []subscribe.SinkKind{cloudevents.Kind, jsonlines.Kind, function.Kind}
}

// All are the kinds that a configuration may name.
var All = sync.OnceValue(func() *kind.Set[kind.Kind] {
	kinds := []kind.Kind{exec.Kind{}, httptask.Kind{}, callback.Kind{}, assign.Kind{}}
	for _, source := range Sources() {
		kinds = append(kinds, subscribe.NewKind(source, Sinks()...))
	}
	all, err := kind.NewSet[kind.Kind](kinds...)
	if err != nil {
		panic(err) // two have one name: every test shows it
	}
	return all
})

// Listers are those that discover may name.
var Listers = sync.OnceValue(func() *kind.Set[discover.Kind] {
	all, err := kind.NewSet[discover.Kind](
		listers.FileKind,
		listers.HTTPKind,
		listers.CallbackKind,
		kafka.ListerKind,
		nats.ListerKind,
		listers.AMQPKind,
	)
	if err != nil {
		panic(err) // two have one name: every test shows it
	}
	return all
})
