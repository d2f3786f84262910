package main

import (
	"context"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// source is the module that an image is made from, and what the image says about it.
type source struct {
	dir      string
	version  string
	revision string
	created  time.Time
}

// word is what can stand in the linker's flags without quotes.
var word = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+/-]*$`)

// describe fills in what the command line left out, from git and SOURCE_DATE_EPOCH. The clock is never asked: two
// builds of one commit are one image.
func (s *source) describe(ctx context.Context) error {
	if _, err := os.Stat(s.dir + "/cmd/shardctl"); err != nil {
		return fmt.Errorf("--source %s is not shardctl's module: %w", s.dir, err)
	}
	var err error
	if s.version == "" {
		if s.version, err = s.git(ctx, "--version", "describe", "--tags", "--always", "--dirty"); err != nil {
			return err
		}
	}
	if s.revision == "" {
		if s.revision, err = s.git(ctx, "--revision", "rev-parse", "HEAD"); err != nil {
			return err
		}
	}
	for flag, value := range map[string]string{"--version": s.version, "--revision": s.revision} {
		if !word.MatchString(value) {
			return wrongUsage("%s %q: letters, digits and . _ + / - only", flag, value)
		}
	}
	s.created, err = s.date(ctx)
	return err
}

// date is SOURCE_DATE_EPOCH, else the commit's date.
func (s *source) date(ctx context.Context) (time.Time, error) {
	text := os.Getenv("SOURCE_DATE_EPOCH")
	if text == "" {
		var err error
		if text, err = s.git(ctx, "SOURCE_DATE_EPOCH", "log", "-1", "--format=%ct"); err != nil {
			return time.Time{}, err
		}
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH %q: want seconds since 1970", text)
	}
	return time.Unix(seconds, 0).UTC(), nil
}

// git asks the commit. The error names what can be given instead, where the source is not a clone.
func (s *source) git(ctx context.Context, instead string, args ...string) (string, error) {
	//nolint:gosec // arguments of ours
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", s.dir}, args...)...)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf(
			"git %s in %s: %w: %s (give %s instead)", args[0], s.dir, err, strings.TrimSpace(errs.String()), instead,
		)
	}
	return strings.TrimSpace(string(out)), nil
}

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
