//go:build unix

package toolcache

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Jars are what a program in Java needs from Maven's repositories.
type Jars struct {
	POM  []byte // of a project whose runtime dependencies they are
	Sums []byte // lines of sha256sum, one for each
}

// Fetch has the program mvn copy them to target. It uses the repositories that are configured. dir is for its files.
func (j Jars) Fetch(ctx context.Context, mvn, dir, target string) error {
	pom := filepath.Join(dir, "pom.xml")
	if err := os.WriteFile(pom, j.POM, 0o600); err != nil {
		return fmt.Errorf("fetch jars: %w", err)
	}
	cmd := exec.CommandContext(ctx, mvn, "-q", "-B", "-Dstyle.color=never", "-f", pom, //nolint:gosec // our arguments
		"dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory="+target)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("fetch jars: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

// Verify compares a directory with Sums: the same files, with those hashes. The error names every difference.
func (j Jars) Verify(dir string) error {
	var problems []error
	want := map[string]string{}
	for lines := bufio.NewScanner(bytes.NewReader(j.Sums)); lines.Scan(); {
		sum, name, _ := strings.Cut(lines.Text(), "  ")
		want[name] = sum
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("verify the jars: %w", err)
	}
	for _, f := range files {
		if want[f.Name()] == "" {
			problems = append(problems, fmt.Errorf("%s is not in the list", f.Name()))
		} else if err := checkSum(filepath.Join(dir, f.Name()), want[f.Name()]); err != nil {
			problems = append(problems, err)
		}
		delete(want, f.Name())
	}
	for name := range want {
		problems = append(problems, fmt.Errorf("%s is missing", name))
	}
	if len(problems) > 0 {
		return fmt.Errorf("verify the jars: %w", errors.Join(problems...))
	}
	return nil
}
