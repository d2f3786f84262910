//go:build linux

package main

import (
	"bytes"
	"io"
	"log"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

func TestPush(t *testing.T) {
	b := whole(t)
	pulled, err := remote.Index(b.pushed, remote.WithContext(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(pulled); err != nil {
		t.Error(err)
	}
	want := digestOf(t, b.index)
	if got := digestOf(t, pulled); got != want {
		t.Errorf("pushed %s, pulled %s", want, got)
	}
	if said := b.pushed.String() + "@" + want.String(); !strings.Contains(b.out, said) {
		t.Errorf("the output does not name %s:\n%s", said, b.out)
	}
}

// Anyone who has the index's digest, or a platform's, finds the SBOMs in the registry.
func TestSBOMsAreReferrers(t *testing.T) {
	b := whole(t)
	if got := referrers(t, b.pushed, digestOf(t, b.index)); len(got) != 2 {
		t.Errorf("%d SBOMs refer to the index, want one of each platform", len(got))
	}
	for _, p := range supported {
		got := referrers(t, b.pushed, digestOf(t, platformImage(t, b.index, p)))
		if len(got) != 1 {
			t.Errorf("%s: %d SBOMs", p, len(got))
			continue
		}
		if !bytes.Equal(got[0], readFile(t, filepath.Join(b.dir, "sbom-"+p.arch+".cdx.json"))) {
			t.Errorf("%s: the SBOM in the registry is not the one in the file", p)
		}
	}
}

// A registry that does not know referrers, as many, gets them under a tag that tools ask for instead.
func TestSBOMsInAnOldRegistry(t *testing.T) {
	b := whole(t)
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	o := &options{push: strings.TrimPrefix(server.URL, "http://") + "/shardctl:1"}
	if err := o.pushAll(t.Context(), b.index, attachedIn(t, b)); err != nil {
		t.Fatal(err)
	}
	pushed, err := o.pushReference()
	if err != nil {
		t.Fatal(err)
	}
	if got := referrers(t, pushed, digestOf(t, b.index)); len(got) != 2 {
		t.Errorf("%d SBOMs refer to the index, want one of each platform", len(got))
	}
}

// attachedIn gives what the layout has beside the image.
func attachedIn(t *testing.T, b *built) []v1.Image {
	t.Helper()
	top, err := b.layout.ImageIndex()
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := top.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var all []v1.Image
	for _, m := range manifest.Manifests[1:] {
		artifact, err := top.Image(m.Digest)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, artifact)
	}
	return all
}

// referrers gives the content of all SBOMs whose subject has the digest.
func referrers(t *testing.T, pushed name.Reference, digest v1.Hash) [][]byte {
	t.Helper()
	subject := pushed.Context().Digest(digest.String())
	index, err := remote.Referrers(subject, remote.WithContext(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var all [][]byte
	for _, m := range manifest.Manifests {
		if m.ArtifactType != string(sbomType) {
			t.Errorf("a referrer is of type %q", m.ArtifactType)
		}
		artifact, err := remote.Image(pushed.Context().Digest(m.Digest.String()), remote.WithContext(t.Context()))
		if err != nil {
			t.Fatal(err)
		}
		layers, err := artifact.Layers()
		if err != nil || len(layers) != 1 {
			t.Fatalf("an SBOM with %d layers: %v", len(layers), err)
		}
		content, err := layers[0].Compressed()
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(content)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, data)
	}
	return all
}

func TestPushWithoutRegistry(t *testing.T) {
	server := httptest.NewServer(nil)
	address := strings.TrimPrefix(server.URL, "http://")
	server.Close()
	b := whole(t)
	t.Setenv("SOURCE_DATE_EPOCH", testEpoch)
	got := fails(
		t, 1, "build", "--source", b.tree, "--version", testVersion, "--revision", testRevision, "--platform",
		"linux/amd64", "--push", address+"/shardctl:1",
	)
	if !strings.Contains(got, "--push") || !strings.Contains(got, address) {
		t.Errorf("the error does not say where it could not push to: %s", got)
	}
}
