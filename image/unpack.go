package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

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
