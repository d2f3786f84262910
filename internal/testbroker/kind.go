//go:build unix

package testbroker

import (
	"context"
	"fmt"

	"github.com/shardctl/shardctl/internal/testprocess"
	"github.com/shardctl/shardctl/internal/testservers"
)

// Kind is a kind of broker.
type Kind string

// The kinds of brokers.
const (
	KindKafka     Kind = "kafka"
	KindRabbitMQ  Kind = "rabbitmq"
	KindMosquitto Kind = "mosquitto"
	KindRedis     Kind = "redis"
	KindNATS      Kind = "nats"
)

// Kinds are all of them.
func Kinds() []Kind { return []Kind{KindKafka, KindRabbitMQ, KindMosquitto, KindRedis, KindNATS} }

// ErrMissing says that a broker cannot be provided. Its text goes on with what to install.
var ErrMissing = testprocess.ErrMissing

// newSoftware is what runs a kind.
func newSoftware(k Kind) (testprocess.Software, error) {
	switch k {
	case KindKafka:
		return &kafka{}, nil
	case KindRabbitMQ:
		return &rabbitmq{}, nil
	case KindMosquitto:
		return &mosquitto{}, nil
	case KindRedis:
		return testservers.NewRedis("appendfsync everysec"), nil // the file outlives the process
	case KindNATS:
		return &nats{}, nil
	default:
		return nil, fmt.Errorf("no kind of broker is called %q; there are %v", k, Kinds())
	}
}

// Provide fetches what a kind needs, so that the first test need not wait for it. Its error wraps [ErrMissing] when
// something is to be installed.
func Provide(ctx context.Context, k Kind) error {
	s, err := newSoftware(k)
	if err != nil {
		return err
	}
	return family.Provide(ctx, string(k), s)
}
