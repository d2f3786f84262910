package amqp

import (
	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
)

// Read is the message of a delivery.
func Read(d amqp091.Delivery) subscribe.Message {
	return newReader(Source{Queue: "q"}).message(&d)
}
