package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
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
