//go:build unix

package testbroker_test

import (
	"context"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/testbroker"
)

// A client of Kafka dials what the broker names, which is the link.
func TestKafkaStaysBehindItsLink(t *testing.T) {
	b := testbroker.Shared(t, testbroker.KindKafka)
	link := b.Link()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	check(t, "prepare", kafkaPrepare(ctx, link.Addr))
	check(t, "write", kafkaWrite(ctx, link.Addr, "through"))
	link.Block()
	brief, end := context.WithTimeout(ctx, 2*time.Second)
	defer end()
	if err := kafkaWrite(brief, link.Addr, "blocked"); err == nil {
		t.Error("a message was confirmed through a blocked link")
	}
	link.Unblock()
	check(t, "write", kafkaWrite(ctx, link.Addr, "again"))
}
