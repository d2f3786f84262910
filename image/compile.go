package main

import (
	"context"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// compile builds one package of the module, statically and free of everything that only this machine knows, and gives
// its bytes.
func (s *source) compile(ctx context.Context, pkg string, p platform) ([]byte, error) {
	dir, err := os.MkdirTemp("", "shardctl-image-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // best effort, in the directory for such things
	binary := filepath.Join(dir, "binary")
	//nolint:gosec // that is the task
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", s.ldflags(),
		"-o", binary, pkg)
	cmd.Dir = s.dir
	cmd.Env = append(
		withoutGo(os.Environ()), "CGO_ENABLED=0", "GOOS="+p.os, "GOARCH="+p.arch, "GOAMD64=v1", "GOARM64=v8.0",
		"GOFLAGS=", "GOWORK=off",
	)
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go build %s for %s: %w\n%s", pkg, p, err, out)
	}
	return os.ReadFile(binary) //nolint:gosec // just built
}

// ldflags are those of the Makefile's build.
func (s *source) ldflags() string {
	return fmt.Sprintf("-s -w -X main.version=%s -X main.revision=%s", s.version, s.revision)
}

// changesCode are variables that make the same source another binary. PWD is go's own idea of where it stands.
var changesCode = []string{
	"CGO_ENABLED", "GOOS", "GOARCH", "GOAMD64", "GOARM64", "GOFLAGS", "GOWORK", "GOEXPERIMENT", "GOFIPS140", "GODEBUG",
	"PWD",
}

func withoutGo(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(entry string) bool {
		key, _, _ := strings.Cut(entry, "=")
		return slices.Contains(changesCode, key)
	})
}

// machines are the names that ELF has for the platforms.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// checkProgram refuses a program that cannot start in the image. It is of another machine, or in need of a dynamic
// linker, which an image from scratch does not have. What is no ELF file is data, or somebody's script, and passes.
func checkProgram(path string, p platform) error {
	file, err := elf.Open(path)
	if err != nil {
		return nil // no ELF file
	}
	defer func() { _ = file.Close() }()
	if file.Machine != machines[p.arch] {
		return fmt.Errorf(
			"%s is for %s, not for %s; write {arch} into its name, or give one --platform", path, file.Machine, p,
		)
	}
	for _, segment := range file.Progs {
		if segment.Type == elf.PT_INTERP {
			return fmt.Errorf(
				"%s is linked dynamically, and the image has no libraries: build it with CGO_ENABLED=0", path,
			)
		}
	}
	return nil
}
