package fence_test

import (
	"os/exec"
	"strings"
	"testing"
)

// Who fences one kind of database compiles the driver of that one alone, and nothing of the lock.
func TestDriversAreCompiledByTheirFencesAlone(t *testing.T) {
	const module = "github.com/shardctl/shardctl/"
	foreign := []string{
		"go.mongodb.org/mongo-driver",
		"github.com/redis/go-redis",
		"github.com/jackc/pgx",
		"github.com/go-sql-driver/mysql",
		"modernc.org/sqlite",
		module + "pkg/elect",
	}
	for name, own := range map[string]string{
		"fence": "", "fence/fencesql": "", "fence/fencehttp": "",
		"fence/fencemongo": "go.mongodb.org/mongo-driver", "fence/fenceredis": "github.com/redis/go-redis",
	} {
		out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", module+"pkg/"+name).Output()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, driver := range foreign {
			if compiled := strings.Contains("\n"+string(out), "\n"+driver); compiled != (driver == own) {
				t.Errorf("%s: %s compiled: %t", name, driver, compiled)
			}
		}
	}
}
