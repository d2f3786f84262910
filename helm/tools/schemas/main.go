package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "schemas:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("schemas", flag.ContinueOnError)
	file := flags.String("file", "schemas/schemas.json", "where the definitions are kept")
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch {
	case flags.Arg(0) == "make" && flags.NArg() == 1:
		return makeFile(ctx, *file, out)
	case flags.Arg(0) == "write" && flags.NArg() == 2:
		return writeDir(*file, flags.Arg(1))
	}
	return errors.New("usage: schemas [-file FILE] make | write DIR")
}

// makeFile brings the sources and keeps what is needed of them in a file.
func makeFile(ctx context.Context, file string, out io.Writer) error {
	custom, modules := definitions{}, []string{}
	for _, source := range customSources {
		fmt.Fprintln(out, source.module)
		found, err := customDefinitions(ctx, source.module, source.files)
		if err != nil {
			return err
		}
		maps.Copy(custom, found)
		modules = append(modules, source.module)
	}
	kept := newArchive(modules...)
	for _, source := range kubernetesSources {
		fmt.Fprintln(out, source.module)
		definitions, err := kubernetesDefinitions(ctx, source.module)
		if err != nil {
			return err
		}
		maps.Copy(definitions, custom)
		kept.add(source.version, source.module, definitions)
	}
	return kept.save(file)
}

func writeDir(file, dir string) error {
	kept, err := load(file)
	if err != nil {
		return err
	}
	for _, source := range kubernetesSources {
		if err := kept.write(dir, source.version); err != nil {
			return err
		}
	}
	return nil
}
