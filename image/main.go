package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/google/go-containerregistry/pkg/name"
)

const usage = `Usage:
  go -C image run . build   [flags]   make the image; --help lists the flags
  go -C image run . rootfs  [flags]   write the image's files into a directory, for a Dockerfile
Paths are relative to image/.
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run executes the command line and returns the exit code: 2 for a command line that makes no sense.
func run(ctx context.Context, args []string, out, errs io.Writer) int {
	err := execute(ctx, args, out, errs)
	var wrong usageError
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return 0
	case errors.As(err, &wrong):
		fmt.Fprintln(errs, "image:", err)
		return 2
	default:
		fmt.Fprintln(errs, "image:", err)
		return 1
	}
}

// usageError is a command line that makes no sense.
type usageError struct{ error }

func wrongUsage(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

func execute(ctx context.Context, args []string, out, errs io.Writer) error {
	if len(args) == 0 {
		fmt.Fprint(errs, usage)
		return wrongUsage("say what to do: build or rootfs")
	}
	switch args[0] {
	case "build":
		return buildCommand(ctx, args[1:], out, errs)
	case "rootfs":
		return rootfsCommand(ctx, args[1:], out, errs)
	case "help", "-h", "--help":
		fmt.Fprint(out, usage)
		return nil
	default:
		fmt.Fprint(errs, usage)
		return wrongUsage("there is no command %q: build or rootfs", args[0])
	}
}

// supported are the platforms that the image is made for.
var supported = []platform{{"linux", "amd64"}, {"linux", "arm64"}}

// platform is what one image of the index runs on.
type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "/" + p.arch }

// addition is one more file of the image: a file as it is, or a program of the module.
type addition struct {
	source    string // a file, {arch} replaced; or a Go package
	goPackage bool
	path      string // in the image
}

// pairs are values NAME=VALUE of a flag that may be given several times.
type pairs map[string]string

func (p pairs) String() string { return "" }

func (p pairs) Set(text string) error {
	key, value, ok := strings.Cut(text, "=")
	if !ok || key == "" {
		return fmt.Errorf("%q: want NAME=VALUE", text)
	}
	p[key] = value
	return nil
}

// words are the values of a flag that may be given several times, in order.
type words []string

func (w *words) String() string { return strings.Join(*w, " ") }

func (w *words) Set(text string) error {
	*w = append(*w, text)
	return nil
}

// additions are the values of --add and --add-go.
type additions struct {
	all       *[]addition
	goPackage bool
}

func (a additions) String() string { return "" }

func (a additions) Set(text string) error {
	source, target, ok := strings.Cut(text, "=")
	switch {
	case !ok || source == "" || target == "":
		return fmt.Errorf("%q: want SOURCE=/path/in/image", text)
	case !path.IsAbs(target) || path.Clean(target) != target || target == "/":
		return fmt.Errorf("%q: %q is no clean, absolute path of a file in the image", text, target)
	case slices.ContainsFunc(*a.all, func(other addition) bool { return other.path == target }):
		return fmt.Errorf("%q: %s is added twice", text, target)
	}
	*a.all = append(*a.all, addition{source: source, goPackage: a.goPackage, path: target})
	return nil
}

// options is the command line of build.
type options struct {
	source    source
	platforms []platform
	adds      []addition

	tag        string
	labels     pairs
	env        pairs
	entrypoint words

	out      string
	archive  string
	sbom     string
	push     string
	insecure bool
}

// sourceFlags are what build and rootfs have in common.
func sourceFlags(flags *flag.FlagSet, s *source, platforms *string) {
	flags.StringVar(&s.dir, "source", "..", "`DIR`ectory of shardctl's module")
	flags.StringVar(&s.version, "version", "", "version to build in (default: git describe)")
	flags.StringVar(&s.revision, "revision", "", "commit to name (default: git rev-parse HEAD)")
	flags.StringVar(platforms, "platform", "linux/amd64,linux/arm64", "`PLATFORMS`, separated by commas")
}

func parseBuild(args []string, errs io.Writer) (*options, error) {
	o := &options{labels: pairs{}, env: pairs{}}
	flags := newFlags("build", errs)
	var platforms string
	sourceFlags(flags, &o.source, &platforms)
	flags.StringVar(&o.tag, "tag", "", "`NAME:TAG` of the image (default: shardctl:VERSION)")
	flags.StringVar(&o.out, "out", "", "`DIR`ectory for an OCI layout with all platforms; what is there is replaced")
	flags.StringVar(
		&o.archive, "archive", "",
		"`FILE` for docker load and ctr images import; with several platforms its name must have {arch}",
	)
	flags.StringVar(
		&o.sbom, "sbom", "", "`FILE` for the CycloneDX SBOM; with several platforms its name must have {arch}",
	)
	flags.StringVar(
		&o.push, "push", "", "`REF` in a registry to push image and SBOMs to; credentials are those of docker login",
	)
	flags.BoolVar(&o.insecure, "insecure", false, "push without TLS")
	flags.Var(
		additions{&o.adds, false}, "add",
		"`FILE=/path` of one more file, executable where FILE is; {arch} in FILE is replaced; repeatable",
	)
	flags.Var(
		additions{&o.adds, true}, "add-go",
		"`PACKAGE=/path` of one more program of the module, compiled like shardctl; repeatable",
	)
	flags.Var(o.labels, "label", "`NAME=VALUE` of one more label, or another value for one of ours; repeatable")
	flags.Var(o.env, "env", "`NAME=VALUE` of the environment; repeatable")
	flags.Var(
		&o.entrypoint, "entrypoint", "one `WORD` of the entrypoint in place of /shardctl; repeat it for its arguments",
	)
	if err := parse(flags, args); err != nil {
		return nil, err
	}
	var err error
	if o.platforms, err = parsePlatforms(platforms); err != nil {
		return nil, err
	}
	return o, o.validate()
}

func newFlags(command string, errs io.Writer) *flag.FlagSet {
	flags := flag.NewFlagSet("image "+command, flag.ContinueOnError)
	flags.SetOutput(errs)
	return flags
}

func parse(flags *flag.FlagSet, args []string) error {
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return err
	case err != nil:
		return usageError{err}
	case flags.NArg() > 0:
		return wrongUsage("%q: no arguments are expected, only flags", flags.Arg(0))
	}
	return nil
}

// parsePlatforms reads a list of platforms and gives it sorted, so that their order does not change the digest.
func parsePlatforms(list string) ([]platform, error) {
	var chosen []platform
	for text := range strings.SplitSeq(list, ",") {
		i := slices.IndexFunc(supported, func(p platform) bool { return p.String() == strings.TrimSpace(text) })
		if i < 0 {
			return nil, wrongUsage("--platform %q: want some of %v", text, supported)
		}
		if slices.Contains(chosen, supported[i]) {
			return nil, wrongUsage("--platform %q is given twice", text)
		}
		chosen = append(chosen, supported[i])
	}
	slices.SortFunc(chosen, func(a, b platform) int { return strings.Compare(a.String(), b.String()) })
	return chosen, nil
}

func (o *options) validate() error {
	if o.out == "" && o.archive == "" && o.push == "" {
		return wrongUsage("nothing to write: give --out, --archive or --push")
	}
	for flag, file := range map[string]string{"--archive": o.archive, "--sbom": o.sbom} {
		if file != "" && len(o.platforms) > 1 && !strings.Contains(file, "{arch}") {
			return wrongUsage(
				"%s %s: one file holds one platform; write {arch} into its name, or give one --platform", flag, file,
			)
		}
	}
	if o.tag != "" {
		if _, err := name.NewTag(o.tag); err != nil {
			return wrongUsage("--tag: %w", err)
		}
	}
	if o.push != "" {
		if _, err := o.pushReference(); err != nil {
			return wrongUsage("--push: %w", err)
		}
	}
	for _, add := range o.adds {
		if slices.ContainsFunc(baseFiles(), func(f file) bool { return f.path == add.path }) || add.path == binaryPath {
			return wrongUsage("--add: the image has %s already", add.path)
		}
	}
	return nil
}

// forArch puts the architecture where a name has a place for it.
func forArch(name string, p platform) string { return strings.ReplaceAll(name, "{arch}", p.arch) }
