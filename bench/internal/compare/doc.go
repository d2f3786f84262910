// Package compare measures two builds in turn, by one harness. It measures their programs from outside, and their plans
// by the benchmark of package balancer that each has.
package compare
