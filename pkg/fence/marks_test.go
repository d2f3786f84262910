package fence_test

import (
	"errors"
	"math"
	"testing"

	"github.com/shardctl/shardctl/pkg/fence"
)

func TestMarks(t *testing.T) {
	seen := fence.Marks{Exclusive: 5, Shared: 8}
	for _, tt := range []struct {
		name  string
		marks fence.Marks
		claim fence.Claim
		want  fence.Marks
		old   bool
	}{
		{"first writer", fence.Marks{}, fence.Exclusive("k", 1), fence.Marks{Exclusive: 1}, false},
		{"first reader", fence.Marks{}, fence.Shared("k", 1), fence.Marks{Shared: 1}, false},
		{"writer after all", seen, fence.Exclusive("k", 9), fence.Marks{Exclusive: 9, Shared: 8}, false},
		{"writer after the last writer only", seen, fence.Exclusive("k", 7), seen, true},
		{"writer before all", seen, fence.Exclusive("k", 4), seen, true},
		{"the same writer", fence.Marks{Exclusive: 5}, fence.Exclusive("k", 5), fence.Marks{Exclusive: 5}, false},
		{"reader after the last writer", seen, fence.Shared("k", 6), seen, false},
		{"reader after all", seen, fence.Shared("k", 9), fence.Marks{Exclusive: 5, Shared: 9}, false},
		{"the last writer reads", seen, fence.Shared("k", 5), seen, false},
		{"reader before the last writer", seen, fence.Shared("k", 4), seen, true},
		{
			"the last writer writes after it has read",
			fence.Marks{Exclusive: 5, Shared: 5},
			fence.Exclusive("k", 5),
			fence.Marks{Exclusive: 5, Shared: 5},
			false,
		},
		{
			"the largest", seen, fence.Shared("k", math.MaxInt64),
			fence.Marks{Exclusive: 5, Shared: math.MaxInt64},
			false,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.marks.Pass(tt.claim)
			if got != tt.want || errors.Is(err, fence.ErrOld) != tt.old || !tt.old && err != nil {
				t.Errorf("%+v, %v; want %+v, old %t", got, err, tt.want, tt.old)
			}
		})
	}
}

func TestOldErrorSaysWhatWasSeen(t *testing.T) {
	_, err := fence.Marks{Exclusive: 5, Shared: 8}.Pass(fence.Exclusive("reports/monthly", 7))
	const want = "token 7 of reports/monthly is old: 8 has been seen: another owner has followed"
	var old *fence.OldError
	if err.Error() != want || !errors.As(err, &old) || old.Seen.Shared != 8 || old.Claim.Token != 7 {
		t.Errorf("%v, want %s", err, want)
	}
}
