//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/moby/buildkit/client/llb"
	"github.com/moby/buildkit/client/llb/sourceresolver"
	"github.com/moby/buildkit/frontend/dockerfile/dockerfile2llb"
	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/moby/buildkit/frontend/dockerui"
	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"
	"github.com/opencontainers/go-digest"
	ocispecs "github.com/opencontainers/image-spec/specs-go/v1"
)

// golang stands for the registry that has the image of the build stage.
type golang struct{ t *testing.T }

func (g golang) ResolveImageConfig(
	_ context.Context, ref string, _ sourceresolver.Opt,
) (string, digest.Digest, []byte, error) {
	if !strings.HasPrefix(ref, "docker.io/library/golang:1.26") {
		g.t.Errorf("the Dockerfile builds on %s", ref)
	}
	config, err := json.Marshal(ocispecs.Image{
		Platform: ocispecs.Platform{OS: "linux", Architecture: "amd64"},
		Config:   ocispecs.ImageConfig{Env: []string{searchPath}},
	})
	return ref, digest.FromBytes(config), config, err
}

func dockerOptions(t *testing.T, p platform) dockerfile2llb.ConvertOpt {
	t.Helper()
	return dockerfile2llb.ConvertOpt{
		Config: dockerui.Config{
			BuildArgs:      map[string]string{"VERSION": testVersion, "REVISION": testRevision, "CREATED": testCreated},
			BuildPlatforms: []ocispecs.Platform{{OS: "linux", Architecture: "amd64"}},
		},
		TargetPlatform: &ocispecs.Platform{OS: p.os, Architecture: p.arch},
		MetaResolver:   golang{t},
	}
}

// What `docker build --check` would say.
func TestDockerfileLint(t *testing.T) {
	text, options := readFile(t, "../Dockerfile"), dockerOptions(t, supported[0])
	options.SourceMap = llb.NewSourceMap(nil, "Dockerfile", "Dockerfile", text)
	options.SourceMap.Definition = &llb.Definition{} // of the context, which the linter does not read
	results, err := dockerfile2llb.DockerfileLint(t.Context(), text, options)
	if err != nil {
		t.Fatal(err)
	}
	if results.Error != nil {
		t.Error(results.Error.Message)
	}
	for _, w := range results.Warnings {
		t.Errorf("%s: %s", w.RuleName, w.Detail)
	}
}

// BuildKit, which builds it, makes of the Dockerfile the same configuration as this program.
func TestDockerfileAgrees(t *testing.T) {
	b := whole(t)
	for _, p := range supported {
		result, err := dockerfile2llb.Dockerfile2LLB(t.Context(), readFile(t, "../Dockerfile"), dockerOptions(t, p))
		if err != nil {
			t.Fatal(err)
		}
		file, err := platformImage(t, b.index, p).ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		ours, docker := asJSON(t, file.Config), asJSON(t, result.Image.Config)
		// Docker's way to write that there is none.
		for _, empty := range []string{"ArgsEscaped", "Cmd", "OnBuild", "Volumes", "Healthcheck"} {
			if docker[empty] == nil || docker[empty] == false {
				delete(docker, empty)
			}
		}
		if diff := cmp.Diff(ours, docker); diff != "" {
			t.Errorf("%s: configuration (-image/ +Dockerfile)\n%s", p, diff)
		}
		if result.Image.Architecture != p.arch || result.Image.OS != p.os {
			t.Errorf("%s: the Dockerfile makes an image for %s/%s", p, result.Image.OS, result.Image.Architecture)
		}
	}
}

func asJSON(t *testing.T, config any) map[string]any {
	t.Helper()
	data, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(data, &fields); err != nil {
		t.Fatal(err)
	}
	return fields
}

// The build stage's command, run on what .dockerignore leaves of the source, writes the files that this program's image
// has. The last stage copies them and nothing else.
func TestDockerfileFiles(t *testing.T) {
	b := whole(t)
	build, last := stages(t)
	tree := filepath.Join(t.TempDir(), "src")
	if err := copyTree(tree, b.tree, dockerIgnores(t)); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "rootfs")
	cmd := exec.CommandContext(t.Context(), "sh", "-c", strings.ReplaceAll(runLine(t, build), "/rootfs", to))
	cmd.Dir = tree
	cmd.Env = append(
		os.Environ(), "TARGETPLATFORM=linux/amd64", "VERSION="+testVersion, "REVISION="+testRevision,
		"SOURCE_DATE_EPOCH=0",
	)
	output(t, cmd)

	all := files(t, platformImage(t, b.index, supported[0]))
	seen := 0
	err := filepath.WalkDir(to, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == to {
			return err
		}
		seen++
		name := strings.TrimPrefix(path, to)
		if entry.IsDir() {
			name += "/"
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		want, known := all[name]
		if !known || want.header.FileInfo().Mode() != info.Mode() {
			t.Errorf("%s, %s, is not in the image, or otherwise", name, info.Mode())
		}
		if known && !entry.IsDir() && !bytes.Equal(want.data, readFile(t, path)) {
			t.Errorf("%s has another content than in the image", name)
		}
		return nil
	})
	if err != nil || seen != len(all) {
		t.Errorf("the Dockerfile writes %d files and directories, the image has %d: %v", seen, len(all), err)
	}

	var copies []string
	for _, command := range last.Commands {
		if c, ok := command.(*instructions.CopyCommand); ok {
			copies = append(copies, c.String())
		}
	}
	if diff := cmp.Diff([]string{"COPY --from=build /rootfs/ /"}, copies); diff != "" || last.BaseName != "scratch" {
		t.Errorf("the last stage, from %s, copies (-want +got)\n%s", last.BaseName, diff)
	}
}

func stages(t *testing.T) (build, last instructions.Stage) {
	t.Helper()
	parsed, err := parser.Parse(bytes.NewReader(readFile(t, "../Dockerfile")))
	if err != nil {
		t.Fatal(err)
	}
	all, _, err := instructions.Parse(parsed.AST, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 2 {
		t.Fatalf("%d stages", len(all))
	}
	return all[0], all[1]
}

func runLine(t *testing.T, stage instructions.Stage) string {
	t.Helper()
	for _, command := range stage.Commands {
		if r, ok := command.(*instructions.RunCommand); ok {
			return strings.Join(r.CmdLine, " ")
		}
	}
	t.Fatal("the build stage runs nothing")
	return ""
}

func dockerIgnores(t *testing.T) func(path string) (bool, error) {
	t.Helper()
	patterns, err := ignorefile.ReadAll(bytes.NewReader(readFile(t, "../.dockerignore")))
	if err != nil {
		t.Fatal(err)
	}
	matcher, err := patternmatcher.New(patterns)
	if err != nil {
		t.Fatal(err)
	}
	return matcher.MatchesOrParentMatches
}
