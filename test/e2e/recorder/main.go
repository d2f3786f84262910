//go:build linux

// Command recorder is the task of the end-to-end scenarios. It writes the time every 20 ms into a file of its own in
// RECORD_DIR. So package history can say afterwards what ran where and when.
//
// It does not handle SIGTERM, and so ends at once; with --ignore-term it ends only by SIGKILL. With --fork it starts a
// child that does so as well, and so shows whether a stopped task leaves processes behind. With --escape that child is
// a session of its own, out of reach of signals to the task's process group. With --flood it writes so many bytes to
// its standard output, once the file of --flood-when is there. It says "flooded" when they are written; timestamps go
// on meanwhile. With --crash-after it ends by itself, with the status of --exit.
package main

import (
	"bytes"
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
	fork := flag.Bool("fork", false, "start a child that records too")
	escape := flag.Bool("escape", false, "start a child that records too, in a session of its own")
	flood := flag.Int64("flood", 0, "bytes to write to the standard output")
	floodWhen := flag.String("flood-when", "", "file to wait for before --flood")
	crashAfter := flag.Duration("crash-after", 0, "time to live; 0: no limit")
	exit := flag.Int("exit", 3, "exit status after --crash-after")
	period := flag.Duration("period", 20*time.Millisecond, "time between two timestamps")
	flag.Parse()

	if *ignoreTerm {
		signal.Ignore(syscall.SIGTERM)
	}
	header, err := headerFromEnv()
	if err != nil {
		return err
	}
	header.Period = *period
	w, err := history.Create(os.Getenv("RECORD_DIR"), header, now())
	if err != nil {
		return err
	}
	//nolint:forbidigo // a task's output goes to its standard output
	fmt.Printf("recording %s with token %d\n", header.Key, header.Token)
	if header.Parent == 0 {
		if err := startChildren(*fork, *escape); err != nil {
			return err
		}
		if *flood > 0 {
			go floodOutput(*flood, *floodWhen)
		}
	}
	for began := time.Now(); ; {
		time.Sleep(*period)
		if *crashAfter > 0 && time.Since(began) >= *crashAfter {
			os.Exit(*exit)
		}
		if err := w.Append(now()); err != nil {
			return fmt.Errorf("record: %w", err)
		}
	}
}

func now() history.Timestamp {
	return history.Timestamp{At: history.Now(), Wall: time.Now().UnixNano()}
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

func startChildren(fork, escape bool) error {
	if fork {
		if err := startChild(nil); err != nil {
			return err
		}
	}
	if escape {
		return startChild(&syscall.SysProcAttr{Setsid: true})
	}
	return nil
}

// startChild starts this program again with the same arguments. The child is not waited for: it ends with the task, or
// is found to have outlived it.
func startChild(attr *syscall.SysProcAttr) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("fork: %w", err)
	}
	cmd := exec.CommandContext(context.Background(), self, os.Args[1:]...)
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", parentEnv, os.Getpid()))
	cmd.SysProcAttr = attr
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("fork: %w", err)
	}
	return nil
}

// floodLine is about as long as lines of programs that write too much are.
const floodLine = 1 << 10

// floodOutput writes size bytes in lines, as fast as somebody reads them. It runs concurrently with the records: a pipe
// that is full holds up this goroutine alone.
func floodOutput(size int64, when string) {
	for when != "" {
		if _, err := os.Stat(when); err == nil {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	line := append(bytes.Repeat([]byte("flood "), floodLine/6), '\n')
	chunk := bytes.Repeat(line, 64)
	for written := int64(0); written < size; {
		n, err := os.Stdout.Write(chunk[:min(int64(len(chunk)), size-written)])
		written += int64(n)
		if err != nil {
			fmt.Fprintln(os.Stderr, "recorder: flood:", err)
			return
		}
	}
	fmt.Printf("\nflooded %d bytes\n", size) //nolint:forbidigo // a task's output goes to its standard output
}
