//go:build linux

package brokers_test

import (
	"os"
	"testing"

	"github.com/shardctl/shardctl/test/e2e/suite"
	"github.com/shardctl/shardctl/test/suites"
)

func TestMain(m *testing.M) { os.Exit(suite.Main(m)) }

func TestScenarios(t *testing.T) {
	suite.Run(t, suites.Brokers, "shardctl, subscribed to real brokers")
}
