// Package compare measures two builds beside each other, in turn, by one harness: their programs from outside, and
// their plans by the benchmark of package balancer that each has.
package compare
