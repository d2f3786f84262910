package main

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// failure is a package that failed, and its top-level tests that did.
type failure struct {
	path     string
	tests    []string
	detector bool // it is the race detector that failed, and none of the tests had
}

// reader passes on what go test prints, and reads from it what failed.
type reader struct {
	out    io.Writer
	failed []failure

	rest  []byte   // a line that is not whole
	tests []string // that failed in the package that is being printed
	ended bool     // its tests ended by themselves, and some failed
	check bool     // the race detector ended it, as something was wrong with itself
}

var (
	failedTest    = regexp.MustCompile(`^--- FAIL: ((?:Test|Example|Fuzz)\w*) \(`)
	failedPackage = regexp.MustCompile(`^FAIL\t(\S+)`)
	otherPackage  = regexp.MustCompile(`^(ok  |\?   )\t`)
)

func (r *reader) Write(b []byte) (int, error) {
	n, err := r.out.Write(b)
	r.rest = append(r.rest, b[:n]...)
	for {
		line, rest, whole := bytes.Cut(r.rest, []byte("\n"))
		if !whole {
			break
		}
		r.line(strings.TrimSuffix(string(line), "\r"))
		r.rest = rest
	}
	if err != nil {
		return n, fmt.Errorf("pass on what go test prints: %w", err)
	}
	return n, nil
}

// line reads one. Packages are printed one after the other, a package's own line last. Before it stands FAIL alone when
// tests failed, and what TestMain prints after that. A program that panicked, exited or ran out of time does not come
// to print it, or panics later.
func (r *reader) line(text string) {
	if test := failedTest.FindStringSubmatch(text); test != nil {
		r.tests = append(r.tests, test[1])
		return
	}
	if failed := failedPackage.FindStringSubmatch(text); failed != nil {
		one := failure{path: failed[1], detector: r.check && len(r.tests) == 0}
		if r.ended {
			one.tests = r.tests
		}
		r.failed = append(r.failed, one)
		r.tests, r.ended, r.check = nil, false, false
		return
	}
	if otherPackage.MatchString(text) {
		r.tests, r.ended, r.check = nil, false, false
		return
	}
	r.check = r.check || strings.HasPrefix(text, "ThreadSanitizer: CHECK failed: ")
	r.ended = text == "FAIL" || r.ended && !strings.HasPrefix(text, "panic: ") &&
		!strings.HasPrefix(text, "fatal error: ")
}
