//go:build linux

package brokers_test

import (
	"testing"

	"github.com/shardctl/shardctl/test/e2e/suite"
	"github.com/shardctl/shardctl/test/suites"
)

func TestScenarios(t *testing.T) {
	suite.Run(t, suites.Brokers, "shardctl, subscribed to real brokers")
}
