package idempotency_test

import (
	"os/exec"
	"strings"
	"testing"
)

// Who uses the package compiles no driver, and MongoDB's only with the package for it.
func TestDriversAreCompiledByTheirPackagesAlone(t *testing.T) {
	drivers := []string{
		"go.mongodb.org/mongo-driver", "modernc.org/sqlite", "github.com/go-sql-driver/mysql", "github.com/jackc/pgx",
	}
	for pkg, want := range map[string]string{
		".": "", "./idempotencyhttp": "", "./idempotencytest": "", "./idempotencystore": "", "./idempotencymongo": "go.mongodb.org/mongo-driver",
	} {
		out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", pkg).Output()
		if err != nil {
			t.Fatalf("go list -deps %s: %v", pkg, err)
		}
		for _, driver := range drivers {
			if compiled := strings.Contains("\n"+string(out), "\n"+driver); compiled != (driver == want) {
				t.Errorf("%s: %s compiled: %t", pkg, driver, compiled)
			}
		}
	}
}
