package adapter

import (
	"cmp"
	"regexp"

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
