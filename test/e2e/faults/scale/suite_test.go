//go:build linux

package scale_test

import (
	"os"
	"testing"

	"github.com/shardctl/shardctl/internal/testprocess"
	"github.com/shardctl/shardctl/test/e2e/suite"
)

func TestMain(m *testing.M) { os.Exit(testprocess.Main(m)) }

func TestScenarios(t *testing.T) {
	suite.Run(t, "shardctl, with many replicas, versions and clocks")
}
