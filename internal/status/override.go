package status

import (
	"slices"

	"github.com/shardctl/shardctl/pkg/api"
)

func sameOverrides(a, b api.Overrides) bool {
	return slices.EqualFunc(a, b, func(x, y api.Override) bool {
		times := x.At.Equal(y.At.Time) && x.Until.Equal(y.Until.Time)
		x.At, y.At, x.Until, y.Until = api.Time{}, api.Time{}, api.Time{}, api.Time{}
		return times && x == y
	})
}
