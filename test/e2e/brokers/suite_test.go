//go:build linux

package brokers_test

import (
	"testing"

	"github.com/shardctl/shardctl/test/e2e/suite"
)

func TestScenarios(t *testing.T) { suite.Run(t, "shardctl, subscribed to real brokers") }
