//go:build linux

package process_test

import (
	"os"
	"testing"

	"github.com/shardctl/shardctl/test/e2e/suite"
	"github.com/shardctl/shardctl/test/suites"
	"github.com/shardctl/shardctl/test/testprocess"
)

func TestMain(m *testing.M) { os.Exit(testprocess.Main(m)) }

func TestScenarios(t *testing.T) {
	suite.Run(t, suites.Scenarios, "shardctl, under faults of processes")
}
