//go:build linux

package e2e_test

import (
	"os"
	"testing"

	"github.com/shardctl/shardctl/test/e2e/suite"
	"github.com/shardctl/shardctl/test/suites"
	"github.com/shardctl/shardctl/test/testprocess"
)

func TestMain(m *testing.M) {
	code := testprocess.Main(m)
	closeSet()
	os.Exit(code)
}

func TestScenarios(t *testing.T) { suite.Run(t, suites.Scenarios, "shardctl, end to end") }
