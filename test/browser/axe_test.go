//go:build linux

package browser

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/shardctl/shardctl/test/toolcache"
)

// axe-core finds what keeps people from using a page: https://github.com/dequelabs/axe-core. The sum is the package's
// integrity, as registries of npm show it.
const (
	axeVersion = "4.14.1"
	axeSum     = "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="
	axeMember  = "package/axe.min.js"
	axeCached  = "shardctl-tools/axe-core-" + axeVersion + ".js"
)

// axeScript is the script, from the user's cache, or from npm's registry.
func axeScript(ctx context.Context) (string, error) {
	path, err := toolcache.Program(ctx, filepath.FromSlash(axeCached),
		func(ctx context.Context, dir, target string) error {
			archive, err := fetchAxe(ctx, dir)
			if err != nil {
				return fmt.Errorf("fetch axe-core: %w", err)
			}
			script, err := member(archive, axeMember)
			if err != nil {
				return fmt.Errorf("unpack axe-core: %w", err)
			}
			return os.WriteFile(target, script, 0o600)
		})
	if err != nil {
		return "", err
	}
	script, err := os.ReadFile(path)
	return string(script), err
}

// fetchAxe fetches the package with npm, which knows the registry that is configured.
func fetchAxe(ctx context.Context, dir string) ([]byte, error) {
	archive, err := packAxe(ctx, dir)
	if err != nil {
		return nil, err
	}
	sum := sha512.Sum512(archive)
	if got := base64.StdEncoding.EncodeToString(sum[:]); got != axeSum {
		return nil, fmt.Errorf("its SHA-512 is %s, want %s", got, axeSum)
	}
	return archive, nil
}

func packAxe(ctx context.Context, dir string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "npm", "pack", "--silent", "axe-core@"+axeVersion)
	cmd.Dir = dir
	if errors.Is(cmd.Err, exec.ErrNotFound) {
		return nil, fmt.Errorf("%w: install npm, or put axe-core's axe.min.js of %s into the user's cache as %s",
			cmd.Err,
			axeVersion, axeCached)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("npm pack: %w: %s", err, bytes.TrimSpace(out))
	}
	return os.ReadFile(filepath.Join(dir, "axe-core-"+axeVersion+".tgz"))
}

// member is one file of an archive.
func member(archive []byte, name string) ([]byte, error) {
	unzipped, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		return nil, err
	}
	for files := tar.NewReader(unzipped); ; {
		header, err := files.Next()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if header.Name == name {
			return io.ReadAll(files)
		}
	}
}

// violation is what axe-core finds.
type violation struct {
	Impact string `json:"impact"`
	ID     string `json:"id"`
	Where  string `json:"where"`
	Why    string `json:"why"`
}

// accessible says that axe-core finds nothing serious in what is shown, which is no wider than the screen.
func (p *tab) accessible(what string) {
	p.t.Helper()
	p.shot(what)
	if !eval[bool](p, `typeof axe === "object"`) {
		eval[bool](p, axe+"; true")
	}
	found := eval[[]violation](p, `axe.run(document).then((r) => r.violations.map((v) => ({
		impact: v.impact, id: v.id, where: v.nodes.map((n) => n.html.slice(0, 200)).slice(0, 3).join("\n"),
		why: v.nodes[0].failureSummary })))`)
	for _, v := range found {
		note := p.t.Errorf
		if v.Impact == "minor" || v.Impact == "moderate" {
			note = p.t.Logf
		}
		note("%s: axe-core: %s %s: %s\n%s", what, v.Impact, v.ID, v.Where, v.Why)
	}
	if wide := eval[int](p, `document.documentElement.scrollWidth - innerWidth`); wide > 0 {
		p.t.Errorf("%s: %d pixels wider than the screen", what, wide)
	}
}
