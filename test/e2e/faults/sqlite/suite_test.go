//go:build linux

package sqlite_test

import (
	"os"
	"testing"

	"github.com/shardctl/shardctl/internal/testprocess"
	"github.com/shardctl/shardctl/test/e2e/suite"
)

func TestMain(m *testing.M) { os.Exit(testprocess.Main(m)) }

func TestScenarios(t *testing.T) { suite.Run(t, "shardctl, its SQLite file mistreated") }
