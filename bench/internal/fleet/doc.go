// Package fleet measures many members in this process: electors and balancer loops, each with a store client of its
// own, and callbacks as work.
package fleet
