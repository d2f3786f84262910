//go:build unix

package testprocess

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/shardctl/shardctl/test/toolcache"
)

const (
	workPrefix = "shardctl-test-"
	lockName   = "lock"   // held while the directory is in use
	failedName = "failed" // is in one that is kept for people to look at
	dataName   = "data"
)

// Directories that nobody holds are removed after a day. In its first moment a new one is not locked yet.
const (
	staleAge = 24 * time.Hour
	newAge   = time.Minute
)

// Work is a directory of temporary files, which its process holds until [Work.Close].
type Work struct {
	Dir string

	like   string // pattern of those of the same purpose and package
	unlock func()
}

// WorkDir makes a directory for one purpose of a test package, which runs in that package's directory. What processes
// that were killed have left is removed: their data at once, the rest after a day.
func WorkDir(purpose string) (*Work, error) {
	removeStale()
	here, err := os.Getwd()
	if err != nil {
		return nil, fmt.Errorf("directory of tests: %w", err)
	}
	pattern := workPrefix + purpose + "-" + filepath.Base(here) + "-*"
	dir, err := os.MkdirTemp("", pattern)
	if err != nil {
		return nil, fmt.Errorf("directory of tests: %w", err)
	}
	unlock, err := toolcache.TryLock(filepath.Join(dir, lockName))
	if err == nil {
		err = os.Mkdir(filepath.Join(dir, dataName), 0o700)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("directory of tests: %w", err), os.RemoveAll(dir))
	}
	return &Work{Dir: dir, like: filepath.Join(os.TempDir(), pattern), unlock: unlock}, nil
}

// Data is a directory in it for what is large, such as servers' data and programs. Of a failure that is kept it holds
// the servers' logs alone.
func (w *Work) Data() string { return filepath.Join(w.Dir, dataName) }

// Close gives the directory up and removes it. After a failure it is kept, and older ones of the same purpose and
// package are removed.
func (w *Work) Close(failed bool) error {
	defer w.unlock()
	if !failed {
		return os.RemoveAll(w.Dir)
	}
	older, _ := filepath.Glob(w.like) // the pattern is well-formed
	for _, dir := range older {
		if Kept(dir) {
			ifFree(dir, func() { _ = os.RemoveAll(dir) })
		}
	}
	dropData(w.Dir)
	return os.WriteFile(filepath.Join(w.Dir, failedName), nil, 0o600)
}

// Kept says whether a directory is there because a test failed.
func Kept(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, failedName))
	return err == nil
}

// removeStale removes what nobody holds: data at once, all of it after a day.
func removeStale() {
	dirs, _ := filepath.Glob(filepath.Join(os.TempDir(), workPrefix+"*")) // as above
	for _, dir := range dirs {
		info, err := os.Stat(dir)
		if err != nil || time.Since(info.ModTime()) < newAge {
			continue
		}
		ifFree(dir, func() {
			dropData(dir)
			if time.Since(info.ModTime()) > staleAge {
				_ = os.RemoveAll(dir) // another user's stays
			}
		})
	}
}

// ifFree does something to a directory that no process holds.
func ifFree(dir string, do func()) {
	unlock, err := toolcache.TryLock(filepath.Join(dir, lockName))
	if err != nil {
		return
	}
	defer unlock()
	do()
}

// dropData removes the files of data but for the servers' logs.
func dropData(dir string) {
	_ = filepath.WalkDir(filepath.Join(dir, dataName), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && entry.Name() != logName {
			_ = os.Remove(path)
		}
		return nil
	})
}
