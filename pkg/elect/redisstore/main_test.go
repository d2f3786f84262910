package redisstore_test

import (
	"os"
	"testing"

	"github.com/shardctl/shardctl/internal/testservers"
)

func TestMain(m *testing.M) { os.Exit(testservers.Main(m)) }
