//go:build linux

package suite

import (
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
)

func TestWhatIsUnsafeHasNoSecondAttempt(t *testing.T) {
	spec := func(name string, attempts int, failures ...string) types.SpecReport {
		r := types.SpecReport{LeafNodeText: name, NumAttempts: attempts, State: types.SpecStatePassed}
		for _, message := range failures {
			r.AdditionalFailures = append(r.AdditionalFailures, types.AdditionalFailure{
				State: types.SpecStateFailed, Failure: types.Failure{Message: "Failure recorded during attempt 1:\n" + message},
			})
		}
		return r
	}
	failed, unsafe := firstAttempts(Report{SpecReports: types.SpecReports{
		spec("calm", 1), spec("late", 2, "keys moved more often"), spec("twice", 2, TwoRuns+", since 12:00"),
		spec("back", 2, TokensFell+": [3 2]"), spec("gone", 2, Lost), spec("other node", 1, TwoRuns),
	}})
	names := func(lines []string) string {
		var all []string
		for _, line := range lines {
			name, _, _ := strings.Cut(line, ":")
			all = append(all, name)
		}
		return strings.Join(all, ", ")
	}
	if got := names(failed); got != "late, twice, back, gone" {
		t.Errorf("tried again: %s", got)
	}
	if got := names(unsafe); got != "twice, back, gone" {
		t.Errorf("unsafe: %s", got)
	}
}
