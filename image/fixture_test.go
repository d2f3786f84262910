//go:build linux

package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"flag"
	"io"
	"io/fs"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

const (
	testVersion  = "v1.2.3-rc.1"
	testRevision = "0123456789abcdef0123456789abcdef01234567"
	testEpoch    = "1700000000" // 2023-11-14T22:13:20Z
	testCreated  = "2023-11-14T22:13:20Z"
)

var (
	realProgram = flag.Bool("image.real", false, "use the real program, not one that only prints its version")
	cold        = flag.Bool("image.cold", false, "compile the second of two builds with an empty cache: minutes")
)

// scratch is where all tests put what they make; TestMain removes it.
var scratch string

func TestMain(m *testing.M) {
	flag.Parse()
	var err error
	if scratch, err = os.MkdirTemp("", "shardctl-image-test-"); err != nil {
		log.Fatal(err)
	}
	code := m.Run()
	if err := os.RemoveAll(scratch); err != nil {
		log.Print(err)
	}
	os.Exit(code)
}

// built is one build with everything that can be written, which most tests look at.
type built struct {
	tree    string // the copy of the source that it was made from: others may be writing in the original
	dir     string // what it wrote
	out     string // what it said
	layout  layout.Path
	index   v1.ImageIndex
	pushed  name.Reference
	problem error
}

var (
	buildOnce sync.Once
	theBuild  built
)

// whole gives the build that all tests share, and makes it at the first call.
func whole(t *testing.T) *built {
	t.Helper()
	buildOnce.Do(func() { theBuild.problem = theBuild.make(t) })
	if theBuild.problem != nil {
		t.Fatal(theBuild.problem)
	}
	return &theBuild
}

func (b *built) make(t *testing.T) error {
	t.Helper()
	b.tree, b.dir = filepath.Join(scratch, "tree"), filepath.Join(scratch, "built")
	if err := copySource(b.tree); err != nil {
		return err
	}
	server := httptest.NewServer(
		registry.New(registry.WithReferrersSupport(true), registry.Logger(log.New(io.Discard, "", 0))),
	)
	// It lives as long as the test binary: other tests ask it.
	var err error
	if b.pushed, err = name.ParseReference(
		strings.TrimPrefix(server.URL, "http://") + "/team/shardctl:" + testVersion,
	); err != nil {
		return err
	}
	t.Setenv("SOURCE_DATE_EPOCH", testEpoch)
	b.out = image(t, "build", "--source", b.tree, "--version", testVersion, "--revision", testRevision,
		"--tag", "registry.example/team/shardctl:"+testVersion,
		"--out", filepath.Join(b.dir, "layout"), "--archive", filepath.Join(b.dir, "shardctl-{arch}.tar"), "--sbom",
		filepath.Join(b.dir, "sbom-{arch}.cdx.json"),
		"--push", b.pushed.String())
	if b.layout, err = layout.FromPath(filepath.Join(b.dir, "layout")); err != nil {
		return err
	}
	b.index, err = indexOf(b.layout)
	return err
}

// standIn takes a second to compile, for one platform after the other and without its paths; the real program takes
// minutes.
const standIn = `package main

import (
	"fmt"

	_ "github.com/google/uuid"
	_ "github.com/spf13/pflag"
)

var version, revision string

func main() { fmt.Printf("shardctl %s (revision %s)\n", version, revision) }
`

// copySource copies this module's source. Without -image.real its programs are stand-ins.
func copySource(to string) error {
	if *realProgram {
		return copyTree(to, "..", nil)
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		if err := copyFile(filepath.Join(to, name), filepath.Join("..", name)); err != nil {
			return err
		}
	}
	for _, program := range []string{"cmd/shardctl", "test/e2e/recorder"} {
		dir := filepath.Join(to, program)
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(standIn), 0o600); err != nil {
			return err
		}
	}
	return copyTree(filepath.Join(to, "image"), ".", nil)
}

// indexOf gives the index with the platforms in it: the first of a layout's.
func indexOf(path layout.Path) (v1.ImageIndex, error) {
	top, err := path.ImageIndex()
	if err != nil {
		return nil, err
	}
	manifest, err := top.IndexManifest()
	if err != nil {
		return nil, err
	}
	if len(manifest.Manifests) == 0 {
		return nil, errors.New("the layout is empty")
	}
	return top.ImageIndex(manifest.Manifests[0].Digest)
}

// image runs the command line, which must succeed, and gives its output.
func image(t *testing.T, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	if code := run(t.Context(), args, &out, &errs); code != 0 {
		t.Fatalf("image %s: exit code %d\n%s%s", strings.Join(args, " "), code, &out, &errs)
	}
	return out.String()
}

// fails runs the command line, which must fail with the code, and gives its complaint.
func fails(t *testing.T, code int, args ...string) string {
	t.Helper()
	var errs bytes.Buffer
	if got := run(t.Context(), args, io.Discard, &errs); got != code {
		t.Errorf("image %s: exit code %d, want %d\n%s", strings.Join(args, " "), got, code, &errs)
	}
	return errs.String()
}

// copyTree copies the source, less what is no source. ignored says what else to leave out.
func copyTree(to, from string, ignored func(path string) (bool, error)) error {
	skipped := []string{".git", "bin", "dist", "node_modules"}
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) { // somebody's passing file
			return nil
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if entry.IsDir() && slices.Contains(skipped, rel) {
			return fs.SkipDir
		}
		if ignored != nil && rel != "." {
			if skip, err := ignored(rel); err != nil || skip {
				return err
			}
		}
		if entry.IsDir() {
			return os.MkdirAll(filepath.Join(to, rel), 0o750)
		}
		if !entry.Type().IsRegular() {
			return nil
		}
		return copyFile(filepath.Join(to, rel), path)
	})
}

func copyFile(to, from string) error {
	data, err := os.ReadFile(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o750); err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o600)
}

// platformImage gives one platform's image of an index.
func platformImage(t *testing.T, index v1.ImageIndex, p platform) v1.Image {
	t.Helper()
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range manifest.Manifests {
		if m.Platform.OS == p.os && m.Platform.Architecture == p.arch {
			got, err := index.Image(m.Digest)
			if err != nil {
				t.Fatal(err)
			}
			return got
		}
	}
	t.Fatalf("no image for %s", p)
	return nil
}

// unpacked is one entry of an image's layers.
type unpacked struct {
	header *tar.Header
	data   []byte
}

// files gives the entries of all layers by their paths, directories with a slash at the end.
func files(t *testing.T, from v1.Image) map[string]unpacked {
	t.Helper()
	layers, err := from.Layers()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]unpacked{}
	for _, l := range layers {
		plain, err := l.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		for r := tar.NewReader(plain); ; {
			header, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			data, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			if _, twice := all["/"+header.Name]; twice && header.Typeflag != tar.TypeDir {
				t.Errorf("%s is in two layers", header.Name)
			}
			all["/"+header.Name] = unpacked{header, data}
		}
	}
	return all
}

// output runs a program that must succeed.
func output(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", cmd, err, out, &errs)
	}
	return string(out)
}
