package config_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/shardctl/shardctl/internal/config"
	"github.com/shardctl/shardctl/internal/decode"
	"github.com/shardctl/shardctl/internal/kinds"
)

func ExampleLoad() {
	settings, err := config.Load(
		[]string{"../../config/topics.yaml"},
		config.Options{Env: os.LookupEnv, Kinds: kinds.All(), Listers: kinds.Listers()},
	)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	group := settings.Groups[0]
	fmt.Fprintln(os.Stdout, group.Name, "has", len(group.Tasks), "tasks, cap", *group.Cap)
	// Output: topics has 100 tasks, cap 20
}

func ExampleLoad_errors() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "a.yaml")
	if err := os.WriteFile(
		path, []byte("store: {uri: 'sqlite:a.db'}\nmaxTask: 3\nlease: {duration: 20}\n"), 0o600,
	); err != nil {
		return
	}
	_, err = config.Load([]string{path},
		config.Options{Env: os.LookupEnv, Kinds: kinds.All(), Listers: kinds.Listers()})
	for _, one := range err.(decode.Errors) { //nolint:errorlint // Load's errors are of this type, not wrapped
		fmt.Fprintf(os.Stdout, "line %d, column %d: %s: %.40s…\n", one.Line, one.Col, one.Field, one.Message)
	}
	// Output:
	// line 2, column 1: maxTask: is not a field, did you mean maxTasks? a…
	// line 3, column 19: lease.duration: is "20", add a unit: 20s…
}
