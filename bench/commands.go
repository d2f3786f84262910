//go:build linux

package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/shardctl/shardctl/bench/internal/lab"
	"github.com/shardctl/shardctl/bench/internal/peers"
)

// peerTables are the tables of peersCommand; they go between the marks of their names.
var peerTables = []struct {
	name, marks string
	run         func(context.Context, *lab.Lab) (string, error)
}{
	{"tasks", "bench-peers", peers.Run},
	{"locks", "bench-locks", peers.Locks},
	{"promoted", "bench-promoted", peers.Promoted},
}

// peersCommand measures shardctl beside other locks, prints the tables, and writes them into pages.
func peersCommand(ctx context.Context, args []string, out, errs io.Writer) int {
	flags := flag.NewFlagSet("bench peers", flag.ContinueOnError)
	flags.SetOutput(errs)
	effort := effortFlags(flags)
	only := flags.String("only", "", "measure one table alone: tasks, locks or promoted")
	servers := flags.String("servers", "",
		"of the locks, take those on these servers alone, separated by commas, such as redis,etcd")
	var pages []string
	flags.Func("write", "put the tables between the marks of this page, too; may be repeated", func(page string) error {
		path, err := filepath.Abs(page)
		pages = append(pages, path)
		return err
	})
	if flags.Parse(args) != nil || flags.NArg() > 0 {
		return 2
	}
	if *servers != "" {
		effort.Servers = strings.Split(*servers, ",")
	}
	if len(pages) > 0 {
		if err := effort.MayWrite(lab.Load()); err != nil {
			fmt.Fprintln(errs, "bench peers:", err)
			return 2
		}
	}
	return withLab(ctx, *effort, out, errs, func(l *lab.Lab) error {
		for _, t := range peerTables {
			if *only != "" && *only != t.name {
				continue
			}
			table, err := t.run(ctx, l)
			if err != nil {
				return err
			}
			fmt.Fprintf(out, "\n%s\n", table)
			if l.Broken() && len(pages) > 0 {
				return fmt.Errorf("not all was measured: %v left as they are", pages)
			}
			for _, page := range pages {
				if err := peers.Write(page, t.marks, table); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// holderCommand is one process that holds locks for peersCommand.
func holderCommand(ctx context.Context, args []string, out, errs io.Writer) int {
	if err := peers.Holder(ctx, args, os.Stdin, out); err != nil {
		fmt.Fprintln(errs, "holder:", err)
		return 1
	}
	return 0
}
