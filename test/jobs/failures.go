//go:build unix

package main

import (
	"regexp"
	"slices"
	"strings"
)

// failureBegins is the first line of what a failed test says: of go test, of Ginkgo, and of a program that ends at
// once.
var failureBegins = regexp.MustCompile(
	`^(--- FAIL: |\s*\[(FAILED|TIMEDOUT|PANICKED)\] |\s*first attempt - |panic: |fatal error: |WARNING: DATA RACE)`,
)

const (
	mostFailures = 6   // of a job
	mostLines    = 12  // of a failure
	mostColumns  = 240 // of a line, in bytes
)

// failures are the first lines of the first failures in a job's output. What is told twice is in it once.
func failures(output []byte) []string {
	all := strings.Split(string(output), "\n")
	var found []string
	for at := 0; at < len(all) && len(found) < mostFailures; at++ {
		if !failureBegins.MatchString(all[at]) {
			continue
		}
		end := at + 1
		for end < min(len(all), at+mostLines) && !endsFailure(all[end]) {
			end++
		}
		lines := slices.Clone(all[at:end])
		for i, line := range lines {
			lines[i] = line[:min(len(line), mostColumns)]
		}
		if text := strings.Join(lines, "\n"); !slices.Contains(found, text) {
			found = append(found, text)
		}
		at = end - 1
	}
	return found
}

// endsFailure says whether a line is no more of the failure before it.
func endsFailure(line string) bool {
	return line == "FAIL" || strings.HasPrefix(line, "FAIL\t") || strings.HasPrefix(line, "ok  \t") ||
		failureBegins.MatchString(line)
}
