//go:build linux

package mongo_test

import (
	"os"
	"testing"

	"github.com/shardctl/shardctl/internal/testprocess"
	"github.com/shardctl/shardctl/test/e2e/suite"
)

func TestMain(m *testing.M) {
	code := testprocess.Main(m)
	closeSet()
	os.Exit(code)
}

func TestScenarios(t *testing.T) { suite.Run(t, "shardctl, under faults of MongoDB") }
