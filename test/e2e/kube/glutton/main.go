//go:build linux

// Command glutton is a task that eats memory once a file is there. `glutton --when FILE --mebibytes 64` does so all by
// itself, so that the kernel ends this task. With --children 40 as many processes do, each smaller than shardctl's
// worker, so that the kernel ends that one. With cgroup v2 as Kubernetes uses it the kernel then ends the whole
// container.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"time"
)

func main() {
	when := flag.String("when", "", "file to wait for; empty: at once")
	size := flag.Int("mebibytes", 64, "what each process eats")
	children := flag.Int("children", 0, "processes that eat beside this one")
	flag.Parse()
	for *when != "" {
		if _, err := os.Stat(*when); err == nil {
			_ = os.Remove(*when) // once is enough: the next owner of this task is to live
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if *children > 0 {
		feed(*children, *size)
	} else {
		eat(*size)
	}
	time.Sleep(time.Hour) // it stays until it is killed
}

func feed(children, size int) {
	self, err := os.Executable()
	if err != nil {
		fmt.Fprintln(os.Stderr, "glutton:", err)
		os.Exit(1)
	}
	for range children {
		cmd := exec.CommandContext(context.Background(), self, "--mebibytes", strconv.Itoa(size))
		if err := cmd.Start(); err != nil {
			fmt.Fprintln(os.Stderr, "glutton:", err) // there may be no memory left for it already
			return
		}
	}
}

// eaten keeps what was eaten from being given back.
var eaten [][]byte

func eat(mebibytes int) {
	for range mebibytes {
		bite := make([]byte, 1<<20)
		for i := 0; i < len(bite); i += 4096 {
			bite[i] = 1 // only pages that were written to count
		}
		eaten = append(eaten, bite)
	}
}
