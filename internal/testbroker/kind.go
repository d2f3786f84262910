//go:build unix

package testbroker

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
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
var ErrMissing = errors.New("no broker for the tests")

// software is one kind's programs. Its methods know nothing of a running process.
type software interface {
	// provide finds the programs or fetches them. Its error wraps ErrMissing when something is to be installed.
	provide(ctx context.Context) error
	// ports is how many ports it listens on; the first is that of clients.
	ports() int
	// prepare writes what the programs read, before each start.
	prepare(ctx context.Context, s *site) error
	// commands are the processes, in the order of their start; the last is the broker.
	commands(s *site) []command
	// ready returns nil once clients are served.
	ready(ctx context.Context, s *site) error
}

// command is one process to start.
type command struct {
	args []string // the program first
	env  []string // added to that of this process
}

// newSoftware is what runs a kind.
func newSoftware(k Kind) (software, error) {
	switch k {
	case KindKafka:
		return &kafka{}, nil
	case KindRabbitMQ:
		return &rabbitmq{}, nil
	case KindMosquitto:
		return &mosquitto{}, nil
	case KindRedis:
		return &redis{}, nil
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
	return s.provide(ctx)
}

// program finds a program in PATH or in the directories of system programs.
func program(k Kind, debian string, names ...string) (string, error) {
	for _, name := range names {
		for _, dir := range []string{"", "/usr/sbin/", "/sbin/", "/usr/local/sbin/"} {
			if path, err := exec.LookPath(dir + name); err == nil {
				return path, nil
			}
		}
	}
	return "", missing(k, "%s is not installed (Debian: apt-get install --no-install-recommends %s)",
		strings.Join(names, " or "), debian)
}

// missing is an error that wraps ErrMissing.
func missing(k Kind, format string, args ...any) error {
	return fmt.Errorf("%w: %s: %w", ErrMissing, k, fmt.Errorf(format, args...))
}
