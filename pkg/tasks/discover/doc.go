// Package discover finds what tasks are made for: topics, queues, streams, or what an address or a file lists.
//
// A [Lister] asks one such place and returns all that is there, each a [Found]. One replica asks at an interval and
// publishes the list. Every replica makes tasks of it by the template in its configuration, under the names that
// [TaskName] gives. Package internal/discovery publishes, and package config has the template.
//
// A lister is chosen by a field of discover in a configuration, as http or file, and is read by a [Kind]. Each kind is
// a package of its own below this one, so that its client is imported by no other.
package discover
