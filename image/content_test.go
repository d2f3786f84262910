//go:build linux

package main

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"debug/elf"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

func TestIndexHasBothPlatforms(t *testing.T) {
	b := whole(t)
	if err := validate.Index(b.index); err != nil {
		t.Error(err)
	}
	manifest, err := b.index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range manifest.Manifests {
		if m.MediaType != types.OCIManifestSchema1 {
			t.Errorf("%s has the media type %s", m.Platform, m.MediaType)
		}
		got = append(got, m.Platform.String())
	}
	if want := []string{"linux/amd64", "linux/arm64/v8"}; !slices.Equal(got, want) ||
		manifest.MediaType != types.OCIImageIndex {
		t.Errorf("the index, %s, has %v, want %v", manifest.MediaType, got, want)
	}
	if got := manifest.Annotations["org.opencontainers.image.version"]; got != testVersion {
		t.Errorf("the index is annotated with version %q", got)
	}
}

func TestConfig(t *testing.T) {
	b := whole(t)
	for _, p := range supported {
		file, err := platformImage(t, b.index, p).ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if file.OS != p.os || file.Architecture != p.arch ||
			file.Created.Format("2006-01-02T15:04:05Z") != testCreated {
			t.Errorf("%s: config says %s/%s, created %s", p, file.OS, file.Architecture, file.Created)
		}
		c := file.Config
		if c.User != "65532:65532" || !slices.Equal(c.Entrypoint, []string{"/shardctl"}) || len(c.Cmd) != 0 ||
			c.WorkingDir != "/" || c.StopSignal != "" {
			t.Errorf(
				"%s: user %q, entrypoint %q, command %q, directory %q, stop signal %q", p, c.User, c.Entrypoint, c.Cmd,
				c.WorkingDir, c.StopSignal,
			)
		}
		want := map[string]string{
			"org.opencontainers.image.title":       "shardctl",
			"org.opencontainers.image.description": "Runs each of many named tasks on exactly one of several replicas",
			"org.opencontainers.image.version":     testVersion,
			"org.opencontainers.image.revision":    testRevision,
			"org.opencontainers.image.created":     testCreated,
			"org.opencontainers.image.source":      "https://github.com/shardctl/shardctl",
			"org.opencontainers.image.url":         "https://github.com/shardctl/shardctl",
			"org.opencontainers.image.licenses":    "Apache-2.0",
		}
		if diff := cmp.Diff(want, c.Labels); diff != "" {
			t.Errorf("%s: labels (-want +got)\n%s", p, diff)
		}
	}
}

func TestFiles(t *testing.T) {
	b := whole(t)
	want := map[string]int64{
		"/etc/": 0o755, "/etc/group": 0o644, "/etc/passwd": 0o644, "/etc/ssl/": 0o755, "/etc/ssl/certs/": 0o755,
		"/etc/ssl/certs/ca-certificates.crt": 0o644, "/tmp/": 0o1777, "/shardctl": 0o755,
	}
	for _, p := range supported {
		all := files(t, platformImage(t, b.index, p))
		got := map[string]int64{}
		for path, f := range all {
			got[path] = f.header.Mode
			if f.header.Uid != 0 || f.header.Gid != 0 || f.header.Uname != "" {
				t.Errorf("%s: %s belongs to %d:%d %s", p, path, f.header.Uid, f.header.Gid, f.header.Uname)
			}
			if (f.header.Typeflag == tar.TypeDir) != strings.HasSuffix(path, "/") {
				t.Errorf("%s: %s is of type %c", p, path, f.header.Typeflag)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: files and modes (-want +got)\n%s", p, diff)
		}
		if !bytes.Contains(all["/etc/passwd"].data, []byte("nonroot:x:65532:65532:")) ||
			!bytes.Contains(all["/etc/group"].data, []byte("nonroot:x:65532:")) {
			t.Errorf("%s: nonroot is not known:\n%s%s", p, all["/etc/passwd"].data, all["/etc/group"].data)
		}
	}
}

func TestProgramIsStatic(t *testing.T) {
	b := whole(t)
	for _, p := range supported {
		data := files(t, platformImage(t, b.index, p))["/shardctl"].data
		file, err := elf.NewFile(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		if file.Machine != machines[p.arch] {
			t.Errorf("%s: the program is for %s", p, file.Machine)
		}
		for _, segment := range file.Progs {
			if segment.Type == elf.PT_INTERP || segment.Type == elf.PT_DYNAMIC {
				t.Errorf("%s: the program has a segment %s: it is linked dynamically", p, segment.Type)
			}
		}
		if bytes.Contains(data, []byte(b.tree)) {
			t.Errorf("%s: the program knows the directory that it was built in", p)
		}
	}
}

// The program of this machine's platform runs with nothing round it, and knows its version.
func TestProgramRuns(t *testing.T) {
	b := whole(t)
	program := filepath.Join(t.TempDir(), "shardctl")
	data := files(t, platformImage(t, b.index, platform{"linux", runtime.GOARCH}))["/shardctl"].data
	if err := os.WriteFile(program, data, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "version")
	cmd.Env = []string{}
	if out := output(t, cmd); !strings.Contains(out, "shardctl "+testVersion+" (revision "+testRevision) {
		t.Errorf("shardctl version says %q", out)
	}
}

func TestCertificates(t *testing.T) {
	data := files(t, platformImage(t, whole(t).index, supported[0]))["/etc/ssl/certs/ca-certificates.crt"].data
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(data) {
		t.Fatal("no certificates")
	}
	want, conditional := x509.NewCertPool(), 0
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			conditional++
			continue
		}
		certificate, err := x509.ParseCertificate(root.Certificate)
		if err != nil {
			t.Fatal(err)
		}
		want.AddCert(certificate)
	}
	if !pool.Equal(want) {
		t.Errorf("the certificates are not those of the module")
	}
	count := bytes.Count(data, []byte("-----BEGIN CERTIFICATE-----"))
	if count < 100 {
		t.Errorf("only %d certificates", count)
	}
	t.Logf("%d certificates, %d left out since they are trusted under a condition", count, conditional)
}

func TestArchive(t *testing.T) {
	b := whole(t)
	tag, err := name.NewTag("registry.example/team/shardctl:" + testVersion)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range supported {
		loaded, err := tarball.ImageFromPath(filepath.Join(b.dir, "shardctl-"+p.arch+".tar"), &tag)
		if err != nil {
			t.Fatal(err)
		}
		if err := validate.Image(loaded); err != nil {
			t.Errorf("%s: %v", p, err)
		}
		// What Docker and containerd call the image's ID.
		got, err := loaded.ConfigName()
		if err != nil {
			t.Fatal(err)
		}
		want, err := platformImage(t, b.index, p).ConfigName()
		if err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("%s: the archive holds %s, the layout %s", p, got, want)
		}
	}
}

// Tests on clusters make images of other behaviour from ours.
func TestAdditions(t *testing.T) {
	b := whole(t)
	dir := t.TempDir()
	data := filepath.Join(dir, "data-amd64.txt")
	if err := os.WriteFile(data, []byte("hello\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(dir, "new", "other.tar")
	t.Setenv("SOURCE_DATE_EPOCH", testEpoch)
	image(t, "build", "--source", b.tree, "--version", testVersion, "--revision", testRevision, "--tag", "other:1",
		"--platform", "linux/amd64", "--archive", archive,
		"--add", filepath.Join(dir, "data-{arch}.txt")+"=/opt/data/hello.txt", "--add-go",
		"./test/e2e/recorder=/recorder",
		"--entrypoint", "/shardctl", "--entrypoint", "version", "--label", "team=core",
		"--label", "org.opencontainers.image.title=other", "--env", "B=2", "--env", "A=1=1")
	got, err := tarball.ImageFromPath(archive, nil)
	if err != nil {
		t.Fatal(err)
	}
	file, err := got.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	c := file.Config
	if !slices.Equal(c.Entrypoint, []string{"/shardctl", "version"}) || c.Labels["team"] != "core" ||
		c.Labels["org.opencontainers.image.title"] != "other" ||
		!slices.Equal(c.Env[1:], []string{"A=1=1", "B=2"}) {
		t.Errorf("entrypoint %q, labels %v, environment %q", c.Entrypoint, c.Labels, c.Env)
	}
	all := files(t, got)
	if f := all["/opt/data/hello.txt"]; string(f.data) != "hello\n" || f.header.Mode != 0o644 ||
		all["/opt/data/"].header == nil {
		t.Errorf("the added file is missing, or another: %v", slices.Sorted(maps.Keys(all)))
	}
	if f := all["/recorder"]; f.header == nil || f.header.Mode != 0o755 || !bytes.HasPrefix(f.data, []byte("\x7fELF")) {
		t.Errorf("the added program is missing, or another: %v", slices.Sorted(maps.Keys(all)))
	}
	// All that is ours stays as it is: a node has it already.
	for i, layer := range layerDigests(t, platformImage(t, b.index, supported[0])) {
		if layerDigests(t, got)[i] != layer {
			t.Errorf("layer %d is another one", i)
		}
	}
}
