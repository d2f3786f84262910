package replica

import (
	"slices"
	"testing"

	"github.com/go-logr/logr/funcr"

	"github.com/shardctl/shardctl/pkg/api"
)

// Each problem is one line when it comes and one when it goes, however often it is shown in between.
func TestProblemsAreLoggedOnce(t *testing.T) {
	var lines []string
	l := problemLog{log: funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})}
	away := api.Problem{Reason: "StoreUnreachable", Severity: "error", Message: "not yet"}
	full := api.Problem{Reason: "NoCapacity", Severity: "error", Group: "g", Message: "3 tasks"}
	worse := full
	worse.Message = "4 tasks"
	failing := func(task, instance string) api.Problem {
		return api.Problem{
			Reason: "TaskFailing", Severity: "warning", Group: "g", Task: task, Instance: instance, Message: "m",
		}
	}
	mine, other := failing("g/k", "a"), failing("g/l", "b")
	skewed := api.Problem{Reason: api.ProblemClockSkew, Severity: "warning", Instance: "b", Message: "m"}
	const found = `"msg"="A problem was found" `
	for _, step := range []struct {
		name     string
		problems []api.Problem
		want     []string
	}{
		{"what is so from the start is no news", []api.Problem{away}, nil},
		{"nor is its end", nil, nil},
		{"a problem comes", []api.Problem{full, other}, []string{
			found + `"error"=null "reason"="NoCapacity" "group"="g" "severity"="error" "message"="3 tasks"`,
		}},
		{"and changes its words", []api.Problem{worse, other}, nil},
		{"another comes, and it goes", []api.Problem{mine, other}, []string{
			`"level"=0 ` + found +
				`"reason"="TaskFailing" "group"="g" "key"="g/k" "peer"="a" "severity"="warning" "message"="m"`,
			`"level"=0 "msg"="A problem is over" "reason"="NoCapacity" "group"="g"`,
		}},
		{"another says what is wrong with it", []api.Problem{mine, skewed}, nil},
		{"the store is away again", []api.Problem{mine, away}, []string{
			found + `"error"=null "reason"="StoreUnreachable" "severity"="error" "message"="not yet"`,
		}},
	} {
		lines = nil
		l.note(step.problems, "a")
		if !slices.Equal(lines, step.want) {
			t.Errorf("%s: logged was\n%q, want\n%q", step.name, lines, step.want)
		}
	}
}
