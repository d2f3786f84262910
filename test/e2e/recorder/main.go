//go:build linux

// Command recorder is the task of the end-to-end stories: it stamps the time every 20 ms into a file of its own in RECORD_DIR, so that
// afterwards package history can tell what ran where and when.
//
// It does not handle SIGTERM, and so ends at once; with --ignore-term it ends only by SIGKILL. With --fork it starts a child
// that stamps as well, and so shows whether a stopped task leaves processes behind.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strconv"
	"syscall"
	"time"

	"github.com/shardctl/shardctl/test/e2e/history"
)

// parentEnv holds, in a child, the PID of the recorder that started it.
const parentEnv = "RECORDER_PARENT"

func main() {
	// A hundred of these run beside the replicas they test: one thread of Go code each, and no garbage to collect.
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(-1)
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "recorder:", err)
		os.Exit(1)
	}
}

func run() error {
	ignoreTerm := flag.Bool("ignore-term", false, "ignore SIGTERM")
	fork := flag.Bool("fork", false, "start a child that stamps too")
	period := flag.Duration("period", 20*time.Millisecond, "time between two stamps")
	flag.Parse()

	if *ignoreTerm {
		signal.Ignore(syscall.SIGTERM)
	}
	header, err := headerFromEnv()
	if err != nil {
		return err
	}
	w, err := history.Create(os.Getenv("RECORD_DIR"), header, stamp())
	if err != nil {
		return err
	}
	fmt.Printf("recording %s with token %d\n", header.Key, header.Token) //nolint:forbidigo // a task's output goes to its standard output
	if *fork && header.Parent == 0 {
		if err := startChild(); err != nil {
			return err
		}
	}
	for {
		time.Sleep(*period)
		if err := w.Stamp(stamp()); err != nil {
			return fmt.Errorf("stamp: %w", err)
		}
	}
}

func stamp() history.Stamp {
	return history.Stamp{At: history.Now(), Wall: time.Now().UnixNano()}
}

func headerFromEnv() (history.Header, error) {
	h := history.Header{
		Key:      os.Getenv("SHARDCTL_KEY"),
		Session:  os.Getenv("SHARDCTL_SESSION"),
		Instance: os.Getenv("SHARDCTL_INSTANCE"),
		PID:      os.Getpid(),
	}
	var err error
	if h.Token, err = strconv.ParseInt(os.Getenv("SHARDCTL_FENCING_TOKEN"), 10, 64); err != nil {
		return h, fmt.Errorf("SHARDCTL_FENCING_TOKEN: %w", err)
	}
	if parent := os.Getenv(parentEnv); parent != "" {
		if h.Parent, err = strconv.Atoi(parent); err != nil {
			return h, fmt.Errorf("%s: %w", parentEnv, err)
		}
	}
	if h.Key == "" || h.Session == "" || h.Instance == "" || os.Getenv("RECORD_DIR") == "" {
		return h, errors.New("SHARDCTL_KEY, SHARDCTL_SESSION, SHARDCTL_INSTANCE and RECORD_DIR must be set")
	}
	return h, nil
}

// startChild starts this program again with the same arguments. The child is not waited for: it ends with the process group, or is
// found to have outlived it.
func startChild() error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("fork: %w", err)
	}
	cmd := exec.CommandContext(context.Background(), self, os.Args[1:]...)
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", parentEnv, os.Getpid()))
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("fork: %w", err)
	}
	return nil
}
