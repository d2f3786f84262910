package config

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/shardctl/shardctl/internal/decode"
)

// stdinName stands for standard input in errors.
const stdinName = "<stdin>"

// maxFile bounds a configuration file.
const maxFile = 16 << 20

// findFiles lists the files that paths mean: files as they are, of directories the *.yaml and *.yml in them. Those
// whose names begin with a dot are left out. They are in order of names. A file that is meant twice is listed once.
func findFiles(paths []string, stdin bool) ([]string, decode.Errors) {
	if len(paths) == 0 {
		return nil, decode.Errors{{Message: "no configuration is given, name a file or directory with --config"}}
	}
	var files []string
	var errs decode.Errors
	for _, path := range paths {
		if path == "-" && stdin {
			if !slices.Contains(files, stdinName) {
				files = append(files, stdinName)
			}
			continue
		}
		found, err := filesAt(path)
		if err != nil {
			errs = append(errs, decode.Error{File: path, Message: err.Error()})
		}
		for _, file := range found {
			if !slices.Contains(files, file) {
				files = append(files, file)
			}
		}
	}
	return files, errs
}

func filesAt(path string) ([]string, error) {
	path = filepath.Clean(path)
	info, err := os.Stat(path)
	if err != nil {
		return nil, unreadable(err)
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, unreadable(err)
	}
	var files []string
	for _, e := range entries {
		if !isConfigName(e.Name()) {
			continue
		}
		file := filepath.Join(path, e.Name())
		// A ConfigMap's files are symlinks: what counts is what they lead to. One that leads nowhere is an error when
		// it is read.
		if info, err := os.Stat(file); err == nil && info.IsDir() {
			continue
		}
		files = append(files, file)
	}
	if len(files) == 0 {
		return nil, errors.New("the directory holds no configuration, a file named *.yaml or *.yml is needed")
	}
	return files, nil
}

func isConfigName(name string) bool {
	ext := filepath.Ext(name)
	return !strings.HasPrefix(name, ".") && (ext == ".yaml" || ext == ".yml")
}

func readFile(path string) ([]byte, error) {
	// Opening a FIFO waits for a writer, perhaps for ever.
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("is %s, want a regular file or a directory", formOf(info.Mode()))
	}
	f, err := os.Open(path) //nolint:gosec // G304: reading the files that are named is what this is for
	if err != nil {
		return nil, unreadable(err)
	}
	defer func() { _ = f.Close() }()
	return readAll(f)
}

func readAll(r io.Reader) ([]byte, error) {
	content, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return nil, unreadable(err)
	}
	if len(content) > maxFile {
		return nil, fmt.Errorf("is larger than %d MiB, the most that is read", maxFile>>20)
	}
	return content, nil
}

// formOf says in words what is there instead of a regular file.
func formOf(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "a directory"
	case mode&fs.ModeNamedPipe != 0:
		return "a FIFO"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	case mode&fs.ModeDevice != 0:
		return "a device"
	default:
		return "no regular file"
	}
}

// unreadable leaves the path out, since it stands before the message.
func unreadable(err error) error {
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		err = at.Err
	}
	return fmt.Errorf("cannot be read: %w", err)
}

// sum is a hash of files: where it is equal nothing has changed.
type sum struct{ hash.Hash }

func newSum() sum { return sum{sha256.New()} }

func (s sum) add(file string, content []byte, err error) {
	_, _ = fmt.Fprintf(s, "%q %d %v\n", file, len(content), err) // a hash's Write never fails
	_, _ = s.Write(content)
}

func (s sum) sum() [sha256.Size]byte { return [sha256.Size]byte(s.Sum(nil)) }
