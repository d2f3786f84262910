package settings

import (
	"os"
	"regexp"
	"strings"
	"time"
)

// Limits and defaults, whether settings are read from files or made in Go.
const (
	DefaultCluster = "default"
	DefaultLease   = 20 * time.Second
	MinLease       = time.Second
	MaxLease       = 24 * time.Hour
	DefaultSettle  = 10 * time.Second
)

// Defaults of discover.
const (
	DefaultInterval = 30 * time.Second
	DefaultGrace    = 5 * time.Minute
	DefaultLimit    = 10_000
)

// MaxNames is the largest number of tasks in a group.
const MaxNames = 100_000

var taskName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,248}$`)

// MaxTaskName is the longest name of a task, in bytes.
const MaxTaskName = 249

// TaskNames describes the names that a task may have, for errors.
const TaskNames = "at most 249 letters, digits, '_', '.' and '-', beginning with a letter, digit or '_'"

// IsTaskName reports whether a task may have the name.
func IsTaskName(name string) bool { return taskName.MatchString(name) }

// IsDNSName reports whether a group or an instance may have the name.
func IsDNSName(name string) bool { return dnsName.MatchString(name) }

var dnsName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$`)

var noDNS = regexp.MustCompile(`[^a-z0-9.-]+`)

// HostName returns the name of this machine, made a DNS name where it is none.
func HostName() string {
	name, err := os.Hostname()
	if err != nil {
		return "localhost"
	}
	name = strings.Trim(noDNS.ReplaceAllString(strings.ToLower(name), "-"), "-.")
	if !dnsName.MatchString(name) {
		return "localhost"
	}
	return name
}
