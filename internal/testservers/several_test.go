//go:build unix

package testservers_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/internal/testservers"
)

// Databases made before and after show which server takes writes.
func TestStandbyTakesOverFromItsPrimary(t *testing.T) {
	pair := testservers.StartPostgresPair(t)
	pair.Primary.Database()
	pair.Primary.Kill()
	pair.Promote()
	pair.Standby.Database()
	pair.Standby.Kill()
	pair.Standby.Start()
	pair.Standby.Database()
}

func TestPgBouncerServesWhatIsBehindIt(t *testing.T) {
	server := testservers.Start(t, testservers.KindPostgres)
	pooler := testservers.StartPgBouncer(t, server.Addr)
	uri := strings.ReplaceAll(server.Database(), server.Addr, pooler.Addr)
	for range 2 {
		out, err := exec.CommandContext(t.Context(), "psql", "-XAtc", "SELECT inet_server_port()", uri).CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || !strings.HasSuffix(server.Addr, ":"+got) {
			t.Errorf("behind the pooler is %q, %v; want %s", got, err, server.Addr)
		}
		server.Kill()
		server.Start()
	}
}
