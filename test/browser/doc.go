// Package browser tests the page at / as people see it: in a real Chromium, on real replicas. It asserts that the page
// is complete, usable by keyboard and by screen readers, and truthful. What it measures (first paint, a keystroke in
// the filter, the time until a change is seen) is printed.
//
// It is a module of its own, so that the driver of the browser is no dependency of the program. It needs Chromium;
// `make page`, in the root of the repository, provides one and runs it. With -write DIR it also writes the screenshots
// of the README to DIR, which counts from the root of the repository.
package browser
