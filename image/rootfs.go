package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

const (
	binaryPath = "/shardctl"
	bundlePath = "/etc/ssl/certs/ca-certificates.crt" // where Go, curl and OpenSSL of Debian look

	// nonroot is the user and the group: a number, so that Kubernetes can see that it is not root.
	nonroot = "65532:65532"

	users  = "root:x:0:0:root:/nonexistent:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/nonexistent:/sbin/nologin\n"
	groups = "root:x:0:\nnonroot:x:65532:\n"
)

// file is one entry of a layer; one whose path ends with a slash is a directory. All belong to root: the user may read,
// not write.
type file struct {
	path string
	mode int64
	data []byte
}

// baseFiles are what a program expects round it. They change seldom, and are a layer of their own.
func baseFiles() []file {
	return []file{
		{path: "/etc/group", mode: 0o644, data: []byte(groups)},
		{path: "/etc/passwd", mode: 0o644, data: []byte(users)},
		{path: bundlePath, mode: 0o644, data: certificates()},
		{path: "/tmp/", mode: 0o1777},
	}
}

// withParents adds the directories above the files, and sorts: a layer names a directory before what is in it.
func withParents(files []file) []file {
	all := slices.Clone(files)
	for _, f := range files {
		for dir := path.Dir(strings.TrimSuffix(f.path, "/")); dir != "/"; dir = path.Dir(dir) {
			all = append(all, file{path: dir + "/", mode: 0o755})
		}
	}
	slices.SortStableFunc(all, func(a, b file) int { return strings.Compare(a.path, b.path) })
	return slices.CompactFunc(all, func(a, b file) bool { return a.path == b.path })
}

// layer packs files the same way each time.
func layer(files []file, at time.Time) (v1.Layer, error) {
	var packed bytes.Buffer
	w := tar.NewWriter(&packed)
	for _, f := range withParents(files) {
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: strings.TrimPrefix(f.path, "/"), Mode: f.mode, Size: int64(len(f.data)),
			ModTime: at, Format: tar.FormatUSTAR,
		}
		if strings.HasSuffix(f.path, "/") {
			header.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("pack %s: %w", f.path, err)
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, fmt.Errorf("pack %s: %w", f.path, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	opener := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed.Bytes())), nil }
	return tarball.LayerFromOpener(
		opener, tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(gzip.DefaultCompression),
		tarball.WithCompressedCaching,
	)
}

// rootfsCommand writes the files of one platform's image into a directory, which a Dockerfile then copies. What Docker
// builds holds the same files, byte for byte.
func rootfsCommand(ctx context.Context, args []string, out, errs io.Writer) error {
	var o options
	var platforms, to string
	flags := newFlags("rootfs", errs)
	sourceFlags(flags, &o.source, &platforms)
	flags.StringVar(&to, "to", "", "`DIR`ectory to write into; it must be empty or missing")
	if err := parse(flags, args); err != nil {
		return err
	}
	var err error
	if o.platforms, err = parsePlatforms(platforms); err != nil {
		return err
	}
	if to == "" || len(o.platforms) != 1 {
		return wrongUsage("rootfs needs --to and one --platform")
	}
	if entries, err := os.ReadDir(to); err == nil && len(entries) > 0 {
		return fmt.Errorf("--to %s is not empty", to)
	}
	if err := o.source.describe(ctx); err != nil {
		return err
	}
	c, err := o.collect(ctx, o.platforms[0])
	if err != nil {
		return err
	}
	if err := unpack(to, withParents(append(c.base, c.program...))); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s: files for %s\n", to, o.platforms[0])
	return nil
}

func unpack(to string, files []file) error {
	if err := os.MkdirAll(to, 0o755); err != nil { //nolint:gosec // as in the image
		return err
	}
	for _, f := range files {
		name := filepath.Join(to, f.path)
		if strings.HasSuffix(f.path, "/") {
			if err := os.Mkdir(name, 0o755); err != nil { //nolint:gosec // as in the image
				return err
			}
		} else if err := os.WriteFile(name, f.data, 0o600); err != nil {
			return err
		}
		if err := os.Chmod(name, mode(f)); err != nil {
			return err
		}
	}
	return nil
}

// mode is that of the file in Go's own bits, which have the sticky one elsewhere.
func mode(f file) os.FileMode {
	m := os.FileMode(f.mode & 0o777)
	if f.mode&0o1000 != 0 {
		m |= os.ModeSticky
	}
	return m
}

// certificates is Mozilla's list of authorities, in PEM, from the pinned Go module: the same on every machine that
// builds. Roots that are trusted under a condition only are left out, since PEM cannot say conditions.
func certificates() []byte {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue
		}
		// Writing to memory does not fail.
		if err := pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			panic(fmt.Sprintf("encode a certificate: %v", err))
		}
	}
	return out.Bytes()
}
