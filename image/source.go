package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
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
