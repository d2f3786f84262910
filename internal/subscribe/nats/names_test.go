package nats

import (
	"strings"
	"testing"
)

func TestConsumerName(t *testing.T) {
	for task, want := range map[string]string{
		"orders": "shardctl-shop-orders", "a.b_c-d": "shardctl-shop-a_2Eb_c-d",
	} {
		if got := consumerName("shop", task); got != want {
			t.Errorf("the consumer of %s is %s, want %s", task, got, want)
		}
	}
	long := strings.Repeat("x", 249)
	a, b := consumerName("shop", long+"a"), consumerName("shop", long+"b")
	if len(a) != longestConsumer || len(b) != longestConsumer || a == b || !name.MatchString(a) {
		t.Errorf("long names become %s and %s", a, b)
	}
}
