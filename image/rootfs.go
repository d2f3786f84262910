package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
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
