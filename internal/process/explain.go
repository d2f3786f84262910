package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// ExecError says why a program could not be executed where the kernel's error alone names the wrong thing: it is the
// same for a directory, a program and a script's interpreter that are not there.
type ExecError struct {
	What string // what is wrong, with its value and what to do
	Err  error  // the kernel's
}

// Error implements error.
func (e *ExecError) Error() string { return e.What + ": " + e.Err.Error() }

// Unwrap gives the kernel's error.
func (e *ExecError) Unwrap() error { return e.Err }

// Explain finds out what the error of a start is about: see [ExecError]. An error that says enough is returned as it
// is. It looks at files, which may hang as they may for [Resolve]: call it where only this caller is held up. When ctx
// ends first the error is returned as it is.
func Explain(ctx context.Context, spec Spec, err error) error {
	errno, ok := errors.AsType[syscall.Errno](err)
	if !ok {
		return err
	}
	if errno == syscall.E2BIG {
		return &ExecError{tooBig(spec), errno}
	}
	select {
	case probes <- struct{}{}:
	case <-ctx.Done():
		return err
	}
	answered := make(chan string, 1)
	go func() { // it ends when the file system answers, as that of Resolve
		defer func() { <-probes }()
		answered <- explain(spec, errno)
	}()
	select {
	case what := <-answered:
		if what != "" {
			return &ExecError{what, errno}
		}
	case <-ctx.Done():
	}
	return err
}

// explain is what is wrong with the files of a start, empty where nothing more is known.
func explain(spec Spec, errno syscall.Errno) string {
	if spec.Dir != "" {
		if _, err := os.Stat(spec.Dir + "/."); errors.Is(err, errno) { // it is entered first
			return "directory " + spec.Dir
		}
	}
	path := spec.Path
	if !filepath.IsAbs(path) {
		path = filepath.Join(spec.Dir, path)
	}
	if _, err := os.Stat(path); err != nil {
		return "" // the program itself
	}
	first, script := firstLine(path)
	interpreter, _, _ := strings.Cut(strings.TrimSpace(strings.TrimRight(first, "\r")), " ")
	switch {
	case errno == syscall.ENOENT && strings.HasSuffix(first, "\r"):
		return fmt.Sprintf(
			"execute %s: its lines end with CR LF, so that its interpreter is taken for %q: save it with LF", spec.Path,
			interpreter+"\r",
		)
	case errno == syscall.ENOENT && script:
		return fmt.Sprintf("execute %s: its interpreter %s", spec.Path, interpreter)
	case errno == syscall.ENOENT:
		return fmt.Sprintf("execute %s: the loader or a library that it was linked for", spec.Path)
	case errno == syscall.ENOEXEC && !script:
		return fmt.Sprintf(
			"execute %s: it is no program of this machine, and no script, which begins with a line such as #!/bin/sh",
			spec.Path,
		)
	default:
		return ""
	}
}

// firstLine is the first line of a script, without its #! and with a carriage return that it ends with.
func firstLine(path string) (line string, script bool) {
	text, script := strings.CutPrefix(beginning(path), "#!")
	line, _, _ = strings.Cut(text, "\n")
	return line, script
}

// maxString is the most bytes that Linux takes of one argument or one variable with its name, the zero at its end
// included: MAX_ARG_STRLEN of execve(2).
const maxString = 128 << 10

// tooBig names what is larger than the kernel takes. The values may be secrets.
func tooBig(spec Spec) string {
	total := 0
	for i, arg := range spec.Args {
		if total += len(arg); len(arg) >= maxString {
			return fmt.Sprintf("argument %d has %d bytes, %d are allowed at most: pass a file", i, len(arg), maxString-1)
		}
	}
	for _, entry := range spec.Env {
		name, _, _ := strings.Cut(entry, "=")
		if total += len(entry); len(entry) >= maxString {
			return fmt.Sprintf(
				"variable %s has %d bytes with its name, %d are allowed at most: pass a file", name, len(entry), maxString-1,
			)
		}
	}
	return fmt.Sprintf("arguments and environment have %d bytes in all", total)
}
