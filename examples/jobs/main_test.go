package main

import (
	"bufio"
	"context"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestTheSecondGoesOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobs.db")
	lines := make(chan string, 1000)
	start := func(instance string) (stop func()) {
		ctx, cancel := context.WithCancel(t.Context())
		read, write := io.Pipe()
		ended := make(chan error, 1)
		go func() { ended <- run(ctx, path, instance, "@every 100ms", write) }()
		go func() {
			for in := bufio.NewScanner(read); in.Scan(); {
				lines <- in.Text()
			}
		}()
		return func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			_ = write.Close()
		}
	}
	waitFor := func(begin string) {
		t.Helper()
		limit := time.After(time.Minute)
		for {
			select {
			case line := <-lines:
				if strings.HasPrefix(line, begin) {
					return
				}
			case <-limit:
				t.Fatalf("waited a minute for %q", begin)
			}
		}
	}
	stopFirst := start("a")
	waitFor("a runs the tick of ")
	stopSecond := start("b")
	stopFirst()
	waitFor("b runs the tick of ")
	stopSecond()
}
