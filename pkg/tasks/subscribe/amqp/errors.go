package amqp

import (
	"errors"
	"fmt"
	"net"
	"strings"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// explain says of an error which broker it is about, which queue if any, and what to do.
func (a address) explain(queue string, err error) error {
	where := "amqp broker " + a.broker
	if queue != "" {
		where += fmt.Sprintf(", queue %q", queue)
	}
	if advice := a.advice(err); advice != "" {
		return fmt.Errorf("%s: %s: %w", where, advice, err)
	}
	return fmt.Errorf("%s: %w", where, err)
}

// advice is what an error means and what to do; empty where the error itself says enough.
func (a address) advice(err error) string {
	var refused *amqp091.Error
	var unreachable *net.OpError
	switch {
	case errors.As(err, &refused):
		return a.meaning(refused)
	case errors.As(err, &unreachable):
		return "cannot be reached: check that it runs and that amqp.url names it"
	case errors.Is(err, errSilent):
		return "is connected and does not answer: check whether it hangs, and the network to it"
	}
	return ""
}

// meaning is advice for an error of the protocol. The texts are RabbitMQ's.
func (a address) meaning(err *amqp091.Error) string {
	has := func(text string) bool { return strings.Contains(err.Reason, text) }
	switch {
	case err.Code == amqp091.AccessRefused && has("in exclusive use"), err == errHeld:
		return "another consumer holds the queue: stop it, or wait until the broker has dropped its connection"
	case err.Code == amqp091.AccessRefused && (has("username or password") || has("Login was refused")):
		return "refuses the user or password of amqp.url"
	case err.Code == amqp091.AccessRefused:
		return fmt.Sprintf("the user of amqp.url lacks a permission in virtual host %q: it needs read, and write to the "+
			"default exchange for dead letters", a.vhost)
	case err.Code == amqp091.NotAllowed:
		return fmt.Sprintf("refuses virtual host %q: check the path of amqp.url and the user's permissions", a.vhost)
	case err.Code == amqp091.NotFound && has("no queue"):
		return fmt.Sprintf("there is no such queue in virtual host %q: declare it, or correct the name", a.vhost)
	case err.Code == amqp091.NotFound:
		return "the node that keeps the queue is not ready: wait for it, or start it"
	case err.Code == amqp091.ResourceLocked:
		return "the queue is exclusive to another connection: declare it without exclusive"
	case err.Code == amqp091.PreconditionFailed && has("invalid arg 'x-stream-offset'"):
		return "the queue is not a stream: leave amqp.stream out"
	case err.Code == amqp091.PreconditionFailed && has("rabbit_stream_queue"):
		return "the queue is a stream: set amqp.stream"
	case err.Code == amqp091.PreconditionFailed && has("timed out"):
		return "a message was worked on for longer than the broker's consumer_timeout: raise it, or lower prefetch"
	case err.Code == amqp091.PreconditionFailed && has("larger than"), err.Code == amqp091.ContentTooLarge:
		return "the message is larger than the broker allows: raise its max_message_size"
	case err.Code == amqp091.ConnectionForced:
		return "the broker, or its operator, has closed the connection"
	}
	return ""
}

var (
	// errHeld has the code that the broker gives for queues of which it checks it.
	errHeld   = &amqp091.Error{Code: amqp091.AccessRefused, Reason: "the queue has another consumer"}
	errClosed = errors.New("the connection is closed")
	errEnded  = errors.New("the broker has ended the subscription: the queue was deleted, or its node has gone down")
)
