package status

import (
	"slices"

	"github.com/shardctl/shardctl/pkg/api"
)

func sameOverrides(a, b api.Overrides) bool {
	return slices.EqualFunc(a, b, func(x, y api.Override) bool {
		at := x.At.Equal(y.At.Time)
		x.At, y.At = api.Time{}, api.Time{}
		return at && x == y
	})
}
