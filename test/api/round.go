//go:build linux

package main

import (
	"context"
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
)

// settings say which values schemathesis takes for names, and how it reads streams.
//
//go:embed schemathesis.toml
var settings []byte

// round is one listener asked in one way.
type round struct {
	name  string
	admin bool   // the listener that takes changes
	token string // empty: none is sent
	// phases are those that a short run needs: bounds of each field are tried once on each listener. Empty: all.
	phases string
}

// roundsOf are the rounds of a cluster with or without tokens.
func roundsOf(tokens bool) []round {
	if !tokens {
		return []round{{name: "server"}, {name: "admin", admin: true}}
	}
	return []round{
		{name: "server-tokens", phases: "fuzzing"},
		{name: "admin-tokens", admin: true, phases: "fuzzing"},
		{name: "admin-token", admin: true, token: adminToken, phases: "fuzzing,stateful"},
	}
}

func named(rounds []round, name string) []round {
	return slices.DeleteFunc(rounds, func(r round) bool { return r.name != name })
}

// run runs schemathesis on the document that the listener itself serves.
func (r round) run(ctx context.Context, o options, python string, c *cluster) error {
	dir, err := os.MkdirTemp("", "shardctl-api-round-") // it leaves files where it runs
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	config := filepath.Join(dir, "schemathesis.toml")
	if err := os.WriteFile(config, settings, 0o600); err != nil {
		return err
	}
	base := "http://" + c.replicas[0].Server
	if r.admin {
		base = "http://" + c.replicas[0].Admin
	}
	args := []string{
		"-m", "schemathesis.cli", "--config-file", config, "--no-color", "run", base + "/openapi.json",
		"--max-examples", strconv.Itoa(o.examples), "--seed", strconv.Itoa(o.seed),
		"--generation-database", "none",
	}
	if r.phases != "" && !o.whole {
		args = append(args, "--phases", r.phases)
	}
	if r.token != "" {
		args = append(args, "--header", "Authorization:Bearer "+r.token)
	}
	if o.reports != "" {
		reports, err := filepath.Abs(o.reports)
		if err != nil {
			return err
		}
		args = append(args, "--report-ndjson-path", filepath.Join(reports, r.name+".ndjson"))
	}
	cmd := exec.CommandContext(ctx, python, args...)
	cmd.Dir = dir
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}
