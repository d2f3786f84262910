package idempotency_test

import (
	"os"
	"testing"

	"github.com/shardctl/shardctl/internal/testservers"
	"github.com/shardctl/shardctl/pkg/idempotency/idempotencytest"
)

func TestMain(m *testing.M) {
	idempotencytest.Child(openClient)
	os.Exit(testservers.Main(m))
}
