//go:build linux

package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// Two builds of one source, in directories of other names and ages, on machines set up otherwise, are one image.
func TestReproducible(t *testing.T) {
	b := whole(t)
	second := filepath.Join(t.TempDir(), "elsewhere", "copy")
	if err := copyTree(second, b.tree, nil); err != nil {
		t.Fatal(err)
	}
	old := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
	if err := os.Chtimes(filepath.Join(second, "go.mod"), old, old); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SOURCE_DATE_EPOCH", testEpoch)
	t.Setenv("GOFLAGS", "-tags=nothing -race=false")
	t.Setenv("GOAMD64", "v3")
	t.Setenv("CGO_ENABLED", "1")
	t.Setenv("TZ", "Asia/Kathmandu")
	if *cold {
		t.Setenv("GOCACHE", t.TempDir())
	}
	defer syscall.Umask(syscall.Umask(0o077))
	dir := t.TempDir()
	image(t, "build", "--source", second, "--version", testVersion, "--revision", testRevision,
		"--tag", "registry.example/team/shardctl:"+testVersion,
		"--platform", "linux/arm64,linux/amd64", "--out", filepath.Join(dir, "layout"),
		"--archive", filepath.Join(dir, "shardctl-{arch}.tar"), "--sbom", filepath.Join(dir, "sbom-{arch}.cdx.json"))
	again, err := layout.FromPath(filepath.Join(dir, "layout"))
	if err != nil {
		t.Fatal(err)
	}
	index, err := indexOf(again)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := digestOf(t, index), digestOf(t, b.index); got != want {
		t.Errorf("two builds differ: %s and %s", want, got)
		for _, p := range supported {
			t.Logf(
				"%s: layers %v and %v", p, layerDigests(t, platformImage(t, b.index, p)),
				layerDigests(t, platformImage(t, index, p)),
			)
		}
	}
	for _, name := range []string{
		"layout/index.json", "shardctl-amd64.tar", "shardctl-arm64.tar", "sbom-amd64.cdx.json", "sbom-arm64.cdx.json",
	} {
		if !sameFile(t, filepath.Join(b.dir, name), filepath.Join(dir, name)) {
			t.Errorf("two builds differ in %s", name)
		}
	}
}

// The date is in the image, and no more than the date: without this the test above could compare nothing.
func TestOtherDateOtherImage(t *testing.T) {
	b := whole(t)
	dir := t.TempDir()
	t.Setenv("SOURCE_DATE_EPOCH", "1700000001")
	image(
		t, "build", "--source", b.tree, "--version", testVersion, "--revision", testRevision, "--platform",
		"linux/amd64", "--out", filepath.Join(dir, "layout"),
	)
	path, err := layout.FromPath(filepath.Join(dir, "layout"))
	if err != nil {
		t.Fatal(err)
	}
	index, err := indexOf(path)
	if err != nil {
		t.Fatal(err)
	}
	before, after := platformImage(t, b.index, supported[0]), platformImage(t, index, supported[0])
	if digestOf(t, before) == digestOf(t, after) {
		t.Error("images of two dates have one digest")
	}
	old, young := layerDigests(t, before), layerDigests(t, after)
	if old[0] != young[0] {
		t.Error("users and certificates are a layer of no date, and yet another one")
	}
	if old[1] == young[1] {
		t.Error("the program's layer has no date")
	}
}

func digestOf(t *testing.T, of interface{ Digest() (v1.Hash, error) }) v1.Hash {
	t.Helper()
	digest, err := of.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

func layerDigests(t *testing.T, of v1.Image) []v1.Hash {
	t.Helper()
	layers, err := of.Layers()
	if err != nil {
		t.Fatal(err)
	}
	var all []v1.Hash
	for _, l := range layers {
		all = append(all, digestOf(t, l))
	}
	return all
}

func sameFile(t *testing.T, one, other string) bool {
	t.Helper()
	a, err := os.ReadFile(one)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(other)
	if err != nil {
		t.Fatal(err)
	}
	return string(a) == string(b)
}
