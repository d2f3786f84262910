package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// write puts the image wherever the command line wants it, and prints the digests.
func (o *options) write(ctx context.Context, built []*made, out io.Writer) error {
	index := o.join(built)
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	attached, err := attach(index, built)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s %s\n", o.tag, digest)
	if o.out != "" {
		if err := o.writeLayout(index, attached); err != nil {
			return fmt.Errorf("--out: %w", err)
		}
		fmt.Fprintf(out, "OCI layout %s\n", o.out)
	}
	for _, m := range built {
		if err := o.writeFiles(m, out); err != nil {
			return err
		}
	}
	if o.push != "" {
		if err := o.pushAll(ctx, index, attached); err != nil {
			return fmt.Errorf("--push: %w", err)
		}
		fmt.Fprintf(out, "pushed %s@%s\n", o.push, digest)
	}
	return nil
}

// writeFiles writes what is a file for each platform: the archive and the SBOM.
func (o *options) writeFiles(m *made, out io.Writer) error {
	if o.archive != "" {
		tag, err := name.NewTag(o.tag)
		if err != nil {
			return err
		}
		file := forArch(o.archive, m.platform)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil { //nolint:gosec // for everybody to read
			return fmt.Errorf("--archive: %w", err)
		}
		if err := tarball.WriteToFile(file, tag, m.image); err != nil {
			return fmt.Errorf("--archive: %w", err)
		}
		fmt.Fprintf(out, "archive %s of %s\n", file, m.platform)
	}
	if o.sbom != "" {
		file := forArch(o.sbom, m.platform)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil { //nolint:gosec // for everybody to read
			return fmt.Errorf("--sbom: %w", err)
		}
		if err := os.WriteFile(file, m.sbom, 0o644); err != nil { //nolint:gosec // for everybody to read
			return fmt.Errorf("--sbom: %w", err)
		}
		fmt.Fprintf(out, "SBOM %s of %s\n", file, m.platform)
	}
	return nil
}

// writeLayout replaces an OCI layout. Anything else at that place is not ours to remove.
func (o *options) writeLayout(index v1.ImageIndex, attached []v1.Image) error {
	entries, err := os.ReadDir(o.out)
	if err == nil && len(entries) > 0 {
		if _, err := os.Stat(filepath.Join(o.out, "oci-layout")); err != nil { //nolint:gosec // the user's choice
			return fmt.Errorf("%s holds something else than an OCI layout; remove it first", o.out)
		}
	}
	if err := os.RemoveAll(o.out); err != nil { //nolint:gosec // an OCI layout, as seen above
		return err
	}
	to, err := layout.Write(o.out, empty.Index)
	if err != nil {
		return err
	}
	tag, err := name.NewTag(o.tag)
	if err != nil {
		return err
	}
	names := layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": tag.TagStr(),
		// Docker's own registry has one name more than containerd knows it by.
		"io.containerd.image.name": strings.Replace(tag.Name(), "index.docker.io/", "docker.io/", 1),
	})
	if err := to.AppendIndex(index, names); err != nil {
		return err
	}
	for _, a := range attached {
		if err := to.AppendImage(a); err != nil {
			return err
		}
	}
	return nil
}

func (o *options) pushReference() (name.Reference, error) {
	if o.insecure {
		return name.ParseReference(o.push, name.Insecure)
	}
	return name.ParseReference(o.push)
}

// pushAll sends the index, and what is attached to it by digest. A registry without the referrers API gets them by the
// tag that the specification names for that.
func (o *options) pushAll(ctx context.Context, index v1.ImageIndex, attached []v1.Image) error {
	ref, err := o.pushReference()
	if err != nil {
		return err
	}
	with := []remote.Option{
		remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain),
		remote.WithTransport(http.DefaultTransport),
	}
	if err := remote.WriteIndex(ref, index, with...); err != nil {
		return err
	}
	for _, a := range attached {
		digest, err := a.Digest()
		if err != nil {
			return err
		}
		if err := remote.Write(ref.Context().Digest(digest.String()), a, with...); err != nil {
			return fmt.Errorf("SBOM: %w", err)
		}
	}
	return nil
}
