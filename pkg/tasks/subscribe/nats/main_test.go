package nats_test

import (
	"os"
	"testing"

	"github.com/shardctl/shardctl/internal/testbroker"
)

func TestMain(m *testing.M) { os.Exit(testbroker.Main(m)) }
