//go:build linux

package brokers_test

import (
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"

	"github.com/shardctl/shardctl/test/e2e/suite"
)

// variant is a kind with other settings, and its name.
type variant struct {
	kind
	words    string
	inFlight int
}

// variants are played as the kinds themselves are.
var variants = []variant{
	{words: "kafka, positions in the store", kind: with("kafka", "start: earliest", "start: earliest, offsets: store")},
	{words: "redis, positions in the store", kind: with("redis", "stream:", "offsets: store, stream:")},
	{words: "kafka, eight in flight", kind: keyed("kafka"), inFlight: 8},
	{words: "redis, eight in flight", kind: keyed("redis"), inFlight: 8},
	{words: "streams of amqp", kind: streams()},
	{words: "plain subjects of nats", kind: subjects()},
}

// with is a kind with a setting in place of another.
func with(name, setting, instead string) kind {
	k := kindOf(name)
	if !strings.Contains(k.source, setting) {
		panic(name + " has no " + setting)
	}
	k.source = strings.Replace(k.source, setting, instead, 1)
	return k
}

// keyed is a kind whose messages have keys.
func keyed(name string) kind {
	k := kindOf(name)
	k.keys = 5
	return k
}

// streams are those of RabbitMQ, of which a node that is killed loses the first seconds.
func streams() kind {
	k := with("amqp", "queue: $(SHARDCTL_TASK)", "queue: $(SHARDCTL_TASK), stream: {}")
	k.connect, k.orderly = connectRabbitMQ("stream"), true
	return k
}

// subjects are those of NATS that no stream takes.
func subjects() kind {
	k := with("nats", "stream:", "subject:")
	k.connect, k.lossy = connectSubjects, true
	return k
}

var _ = Describe("Subscriptions with other settings", func() {
	for _, v := range variants {
		promise := "lose nothing"
		if v.lossy {
			promise = "lose nothing but at faults"
		}
		It(fmt.Sprintf("to %s %s", v.words, promise), Label(v.name, "nightly"), func(ctx SpecContext) {
			p := small
			p.title = v.words
			p.inFlight = max(1, v.inFlight)
			play(ctx, v.kind, p)
		}, SpecTimeout(2*suite.ScenarioTimeout))
	}
})
