// Package tasks is the work: what a task is, and how it runs while its key is held.
package tasks
