package process

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// maxProbes bounds the file systems' answers that are waited for at once. Each that hangs keeps one thread.
const maxProbes = 1024

var probes = make(chan struct{}, maxProbes)

// Resolve finds a command as a shell would, in the PATH of env, and returns the path to execute. A name with a slash is
// taken as it is: relative to dir, in which the command is to run. It returns once the file systems have answered for
// program and directory, or when ctx ends. So a mount that hangs (a dead NFS server) holds up this call alone.
//
// Whether the program can be executed is left to the kernel: of what is wrong with it only its absence from PATH is an
// error.
func Resolve(ctx context.Context, name string, env []string, dir string) (path string, err error) {
	type answer struct {
		path string
		err  error
	}
	select {
	case probes <- struct{}{}:
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	answered := make(chan answer, 1)
	go func() { // it ends when the file system answers, which may be long after ctx has ended
		defer func() { <-probes }()
		var a answer
		if a.path, a.err = lookPath(name, env, dir); a.err == nil {
			probe(a.path, dir)
		}
		answered <- a
	}()
	select {
	case a := <-answered:
		return a.path, a.err
	case <-ctx.Done():
		return "", fmt.Errorf("the file system has not answered for %s: %w", name, context.Cause(ctx))
	}
}

func lookPath(name string, env []string, dir string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	path := os.Getenv("PATH")
	for _, e := range env {
		if value, ok := strings.CutPrefix(e, "PATH="); ok {
			path = value
		}
	}
	for _, place := range filepath.SplitList(path) {
		if !filepath.IsAbs(place) {
			place = filepath.Join(dir, place)
		}
		file, err := filepath.Abs(filepath.Join(place, name))
		if err != nil {
			continue // this process's own directory is gone
		}
		info, err := os.Stat(file) //nolint:gosec // G703: running what is configured is what this is for
		if err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return file, nil
		}
	}
	return "", fmt.Errorf("program %q is not in PATH: %w", name, os.ErrNotExist)
}

// probe does what chdir and execve will do first. It enters the directory, opens the program and reads its beginning,
// and the interpreter's of a script. Errors do not matter here, only that an answer comes.
func probe(path, dir string) {
	if dir != "" {
		_, _ = os.Stat(dir + "/.")
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
	}
	for range 4 { // scripts whose interpreter is a script: the kernel follows four
		interpreter, ok := strings.CutPrefix(beginning(path), "#!")
		if !ok {
			return
		}
		line, _, _ := strings.Cut(interpreter, "\n")
		fields := strings.Fields(line)
		if len(fields) == 0 {
			return
		}
		path = fields[0]
	}
}

// beginning is what the kernel reads of a program to find its format.
func beginning(path string) string {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return "" // opening a FIFO would wait for its writer; executing one fails
	}
	f, err := os.Open(path) //nolint:gosec // G304: as above
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	head := make([]byte, 256)
	n, _ := f.Read(head)
	return string(head[:n])
}
