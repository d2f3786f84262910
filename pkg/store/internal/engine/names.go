package engine

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/shardctl/shardctl/pkg/store"
)

// DefaultCluster is the cluster of a [store.Config] that names none.
const DefaultCluster = "default"

var clusterName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,63}$`)

// ValidCluster says whether a cluster may have this name.
func ValidCluster(name string) bool { return clusterName.MatchString(name) }

// Cluster is the name of a cluster, or the default. The error is a [store.FieldError].
func Cluster(name string) (string, error) {
	name = cmp.Or(name, DefaultCluster)
	if !ValidCluster(name) {
		return "", &store.FieldError{Field: "cluster", Text: "must be at most 63 letters, digits, '.', '-' and '_'"}
	}
	return name, nil
}

var leading = regexp.MustCompile(`^[0-9]+(\.[0-9]+)*`)

// Numbers are the numbers that a server's version begins with, such as 10.11.19 of 10.11.19-MariaDB-log; empty: none.
func Numbers(version string) string { return leading.FindString(version) }

// Older says whether the numbers of a server's version are before those of another, of which those that are missing
// come first: 3.5 is before 3.5.3. known is false for a version without numbers.
func Older(version, than string) (older, known bool) {
	is, least := numbers(version), numbers(than)
	return slices.Compare(is, least) < 0, len(is) > 0
}

func numbers(version string) (all []int) {
	for part := range strings.SplitSeq(Numbers(version), ".") {
		n, err := strconv.Atoi(part)
		if err != nil { // no number at all, or one that no version has
			return nil
		}
		all = append(all, n)
	}
	return all
}
