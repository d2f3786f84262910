package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// made is the image of one platform, with its SBOM.
type made struct {
	platform platform
	image    v1.Image
	sbom     []byte
}

func buildCommand(ctx context.Context, args []string, out, errs io.Writer) error {
	o, err := parseBuild(args, errs)
	if err != nil {
		return err
	}
	if err := o.source.describe(ctx); err != nil {
		return err
	}
	if o.tag == "" {
		o.tag = title + ":" + strings.NewReplacer("+", "_", "/", "_").Replace(o.source.version)
	}
	built, err := o.build(ctx)
	if err != nil {
		return err
	}
	return o.write(ctx, built, out)
}

// build makes the images of all platforms.
func (o *options) build(ctx context.Context) ([]*made, error) {
	var all []*made
	for _, p := range o.platforms {
		c, err := o.collect(ctx, p)
		if err != nil {
			return nil, err
		}
		image, err := o.assemble(p, c)
		if err != nil {
			return nil, fmt.Errorf("image for %s: %w", p, err)
		}
		list, err := o.materials(p, c)
		if err != nil {
			return nil, fmt.Errorf("SBOM for %s: %w", p, err)
		}
		all = append(all, &made{p, image, list})
	}
	return all, nil
}

// collect compiles and reads the files of one platform.
func (o *options) collect(ctx context.Context, p platform) (contents, error) {
	binary, err := o.source.compile(ctx, "./cmd/shardctl", p)
	if err != nil {
		return contents{}, err
	}
	c := contents{base: baseFiles(), program: []file{{path: binaryPath, mode: 0o755, data: binary}}}
	for _, add := range o.adds {
		f, err := add.read(ctx, &o.source, p)
		if err != nil {
			return contents{}, err
		}
		c.added = append(c.added, f)
	}
	return c, nil
}

func (a addition) read(ctx context.Context, s *source, p platform) (file, error) {
	if a.goPackage {
		data, err := s.compile(ctx, a.source, p)
		return file{path: a.path, mode: 0o755, data: data}, err
	}
	name := forArch(a.source, p)
	info, err := os.Stat(name) //nolint:gosec // the user's choice
	if err != nil {
		return file{}, fmt.Errorf("--add: %w", err)
	}
	if !info.Mode().IsRegular() {
		return file{}, fmt.Errorf("--add: %s is no regular file", name)
	}
	data, err := os.ReadFile(name) //nolint:gosec // the user's choice
	if err != nil {
		return file{}, fmt.Errorf("--add: %w", err)
	}
	// The rest of the mode depends on the umask of the one who wrote the file.
	mode := int64(0o644)
	if info.Mode()&0o100 != 0 {
		mode = 0o755
	}
	return file{path: a.path, mode: mode, data: data}, checkProgram(name, p)
}

const (
	title       = "shardctl"
	description = "Runs each of many named tasks on exactly one of several replicas"
	home        = "https://github.com/shardctl/shardctl"
	licenses    = "Apache-2.0"

	// searchPath is what Docker gives an image that names none.
	searchPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
)

// labels say where an image comes from, in the names of the OCI image specification.
func (s *source) labels() map[string]string {
	const prefix = "org.opencontainers.image."
	return map[string]string{
		prefix + "title":       title,
		prefix + "description": description,
		prefix + "version":     s.version,
		prefix + "revision":    s.revision,
		prefix + "created":     s.created.Format(time.RFC3339),
		prefix + "source":      home,
		prefix + "url":         home,
		prefix + "licenses":    licenses,
	}
}

// contents are the files of one platform's image, a list for each layer.
type contents struct {
	base, program, added []file
}

// config is what the image says about its start. It has no command: arguments are the user's.
func (o *options) config() v1.Config {
	labels := o.source.labels()
	maps.Copy(labels, o.labels)
	entrypoint := slices.Clone(o.entrypoint)
	if len(entrypoint) == 0 {
		entrypoint = []string{binaryPath}
	}
	env := []string{searchPath}
	for _, key := range slices.Sorted(maps.Keys(o.env)) {
		env = append(env, key+"="+o.env[key])
	}
	return v1.Config{
		User: nonroot, WorkingDir: "/", Entrypoint: entrypoint, Env: env, Labels: labels,
		ExposedPorts: map[string]struct{}{"8080/tcp": {}},
	}
}

// assemble makes the image of one platform.
func (o *options) assemble(p platform, c contents) (v1.Image, error) {
	layers := []struct {
		files []file
		by    string
		at    time.Time
	}{
		// Of no date: versions share this layer, and a node that has one need not fetch it again.
		{c.base, "users, certificates, /tmp", time.Unix(0, 0)},
		{c.program, "shardctl " + o.source.version, o.source.created},
		{c.added, "added files", o.source.created},
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	for _, l := range layers {
		if len(l.files) == 0 {
			continue
		}
		packed, err := layer(l.files, l.at)
		if err != nil {
			return nil, err
		}
		history := v1.History{Created: v1.Time{Time: o.source.created}, CreatedBy: l.by}
		if image, err = mutate.Append(image, mutate.Addendum{Layer: packed, History: history}); err != nil {
			return nil, err
		}
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Variant = p.os, p.arch, variant(p)
	file.Created = v1.Time{Time: o.source.created}
	file.Config = o.config()
	return mutate.ConfigFile(image, file)
}

// variant is how the OCI specification names the one kind of arm64 there is.
func variant(p platform) string {
	if p.arch == "arm64" {
		return "v8"
	}
	return ""
}

// join makes one index of the platforms' images, with the labels as annotations, which registries show.
func (o *options) join(built []*made) v1.ImageIndex {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, m := range built {
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: m.image,
			Descriptor: v1.Descriptor{
				Platform: &v1.Platform{OS: m.platform.os, Architecture: m.platform.arch, Variant: variant(m.platform)},
			},
		})
	}
	labels := o.source.labels()
	maps.Copy(labels, o.labels)
	return mutate.Annotations(index, labels).(v1.ImageIndex)
}

// sbomType is the media type of CycloneDX in JSON, by which scanners find it among the referrers.
const sbomType types.MediaType = "application/vnd.cyclonedx+json"

// attach makes the manifests that tie each SBOM to its image. They do so by the index, which people name, and by the
// platform's own manifest, which a node has pulled.
func attach(index v1.ImageIndex, built []*made) ([]v1.Image, error) {
	var all []v1.Image
	for _, m := range built {
		for _, subject := range []partial.Describable{index, m.image} {
			of, err := partial.Descriptor(subject)
			if err != nil {
				return nil, err
			}
			a, err := m.artifact(*of)
			if err != nil {
				return nil, err
			}
			all = append(all, a)
		}
	}
	return all, nil
}

// artifact is an OCI artifact with the SBOM as its only layer. Its config's type says what it is, for registries that
// know no artifactType.
func (m *made) artifact(subject v1.Descriptor) (v1.Image, error) {
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), sbomType)
	image, err := mutate.Append(image, mutate.Addendum{Layer: static.NewLayer(m.sbom, sbomType)})
	if err != nil {
		return nil, err
	}
	subject = v1.Descriptor{MediaType: subject.MediaType, Size: subject.Size, Digest: subject.Digest}
	notes := map[string]string{"org.opencontainers.image.title": "sbom-" + m.platform.arch + ".cdx.json"}
	annotated := mutate.Annotations(image, notes).(v1.Image)
	return mutate.Subject(annotated, subject).(v1.Image), nil
}
