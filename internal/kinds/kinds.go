// Package kinds is what tasks can run in the program, and what discover can ask: one line for each kind.
package kinds

import (
	"sync"

	"github.com/shardctl/shardctl/pkg/tasks"
	"github.com/shardctl/shardctl/pkg/tasks/assign"
	"github.com/shardctl/shardctl/pkg/tasks/callback"
	"github.com/shardctl/shardctl/pkg/tasks/discover"
	"github.com/shardctl/shardctl/pkg/tasks/discover/listers"
	"github.com/shardctl/shardctl/pkg/tasks/exec"
	"github.com/shardctl/shardctl/pkg/tasks/httptask"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe/amqp"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe/cloudevents"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe/function"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe/jsonlines"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe/kafka"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe/mqtt"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe/nats"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe/redis"
)

// Sources are what tasks can subscribe to.
func Sources() []subscribe.SourceKind {
	return []subscribe.SourceKind{
		amqp.Kind{},
		kafka.Kind{},
		mqtt.Kind{},
		nats.Kind{},
		redis.Kind{},
	}
}

// Sinks are where messages can go.
func Sinks() []subscribe.SinkKind {
	return []subscribe.SinkKind{cloudevents.Kind{}, jsonlines.Kind{}, function.Kind{}}
}

// All are the kinds that a configuration may name.
var All = sync.OnceValue(func() *tasks.Kinds {
	kinds := []tasks.Kind{exec.Kind{}, httptask.Kind{}, callback.Kind{}, assign.Kind{}}
	for _, source := range Sources() {
		kinds = append(kinds, subscribe.NewKind(source, Sinks()...))
	}
	all, err := tasks.NewKinds(kinds...)
	if err != nil {
		panic(err) // two have one name: every test shows it
	}
	return all
})

// Listers are those that discover may name.
var Listers = sync.OnceValue(func() *discover.Kinds {
	all, err := discover.NewKinds(
		listers.FileKind{},
		listers.HTTPKind{},
		listers.CallbackKind{},
		kafka.ListerKind{},
		nats.ListerKind{},
		listers.AMQPKind{},
	)
	if err != nil {
		panic(err) // two have one name: every test shows it
	}
	return all
})
