package main

import (
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

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
