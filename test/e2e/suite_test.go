//go:build linux

package e2e_test

import (
	"os"
	"testing"

	"github.com/shardctl/shardctl/test/e2e/suite"
	"github.com/shardctl/shardctl/test/suites"
)

func TestMain(m *testing.M) {
	os.Exit(suite.Main(m, closeSet))
}

func TestScenarios(t *testing.T) { suite.Run(t, suites.Scenarios, "shardctl, end to end") }
