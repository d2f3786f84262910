package idempotency_test

import (
	"os"
	"testing"

	"github.com/shardctl/shardctl/internal/testprocess"
	"github.com/shardctl/shardctl/pkg/idempotency/idempotencytest"
)

func TestMain(m *testing.M) {
	idempotencytest.Child(openClient)
	os.Exit(testprocess.Main(m))
}
