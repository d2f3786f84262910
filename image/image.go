package main

import (
	"maps"
	"slices"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

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
