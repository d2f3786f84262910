package replica

import (
	"slices"
	"strings"
	"testing"
)

// TestEventsOfAnApplication: it comes, goes for a reason, and another is refused once.
func TestEventsOfAnApplication(t *testing.T) {
	ready := ApplicationState{App: "1"}
	command := ApplicationState{App: "1", PID: 7}
	noLease := ApplicationState{App: "1", Reason: "LeaseLost"}
	for name, step := range map[string]struct {
		was, is ApplicationState
		want    []string
		lease   bool // is over in between
	}{
		"none": {
			is: ApplicationState{Reason: "NotCalled", Message: "none has called at unix:/a"},
		},
		"it calls, and is not ready": {is: ApplicationState{App: "1", Reason: "NotReady"}},
		"it is ready": {
			was: ApplicationState{App: "1", Reason: "NotReady"}, is: ready,
			want: []string{"ApplicationReady Ready  a 1 calls, and is ready"},
		},
		"nothing new": {was: ready, is: ready},
		"it is ready no more": {
			was: ready, is: ApplicationState{App: "1", Reason: "NotReady", Message: "it says so"},
			want: []string{"ApplicationGone NotReady a  1: it says so"},
		},
		"the lease of the replica is over": {was: ready, is: noLease},
		"and was renewed":                  {was: ready, is: ready, lease: true},
		"and it is silent meanwhile": {
			was: ready, is: ApplicationState{App: "1", Reason: "Silent", Message: "for long"}, lease: true,
			want: []string{"ApplicationGone Silent a  1: for long"},
		},
		"and its command was ended": {
			was: command, is: ApplicationState{Reason: "LeaseLost", Message: "ended"}, lease: true,
			want: []string{"ApplicationGone LeaseLost a  pid 7: ended"},
		},
		"and others call in turn": {
			was: ApplicationState{App: "2"}, is: ready, lease: true,
			want: []string{
				"ApplicationGone Replaced a  2: another process has taken its place",
				"ApplicationReady Ready  a 1 calls, and is ready",
			},
		},
		"its command has ended": {
			was: command, is: ApplicationState{Reason: "Ended", Message: "exit status 1"},
			want: []string{"ApplicationGone Ended a  pid 7: exit status 1"},
		},
		"another at once": {
			was: ready, is: ApplicationState{App: "2"},
			want: []string{
				"ApplicationGone Replaced a  1: another process has taken its place",
				"ApplicationReady Ready  a 2 calls, and is ready",
			},
		},
		"another is refused": {
			was: ready, is: ApplicationState{App: "1", Refused: "2"},
			want: []string{"ApplicationRefused OtherApplication a  2 calls as well: it is refused while 1 may run"},
		},
		"and still is": {was: ApplicationState{App: "1", Refused: "2"}, is: ApplicationState{App: "1", Refused: "2"}},
	} {
		var got []string
		j := applicationJournal{instance: "a", was: step.was}
		if step.lease && len(j.next(&noLease)) > 0 {
			t.Errorf("%s: the lease of the replica is over, and an event is noted", name)
		}
		for _, e := range j.next(&step.is) {
			got = append(got, strings.Join([]string{e.Type, string(e.Reason), e.From, e.To, e.Message}, " "))
		}
		if !slices.Equal(got, step.want) {
			t.Errorf("%s: %q, want %q", name, got, step.want)
		}
	}
}
