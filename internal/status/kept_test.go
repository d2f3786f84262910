package status

import (
	"net/http/httptest"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// keeps is what one replica keeps of a task.
type keeps tasks.Output

func (k keeps) Output(string) (tasks.Output, bool) { return tasks.Output(k), k.Lines != nil }

// wrote is output of the task since the last claim, a line for each token of a start.
func wrote(held bool, claim int64, tokens ...int64) keeps {
	k := keeps{Held: held, Claim: claim}
	for i, token := range tokens {
		k.Token = token
		k.Lines = append(k.Lines, tasks.Line{
			Seq: uint64(i + 1), Time: epoch.Add(time.Duration(i) * time.Second), Token: token,
			Text: "line of " + string(rune('0'+token)),
		})
	}
	return k
}

// TestLogsAreOfTheOwnersRun holds that the answer is from the run of the current owner, or says that it has ended: also
// while the replica that is asked, or the owner before, has not seen the hand-over.
func TestLogsAreOfTheOwnersRun(t *testing.T) {
	owned := func(self, owner string, token int64, addresses map[string]string) *Snapshot {
		s := sample(3)
		s.Status.Instance = self
		s.Tasks[0].Instance, s.Tasks[0].Session, s.Tasks[0].FencingToken = owner, "session-"+owner, token
		for i := range s.Instances {
			s.Instances[i].Address = addresses[s.Instances[i].Name]
		}
		return s
	}
	for name, c := range map[string]struct {
		asked       string
		knows       string // the owner as the asked one knows it
		token       int64
		a           keeps
		aKnows      string
		aToken      int64
		b           keeps
		query, want string
		code        int
		by, ended   string
	}{
		"an old run here": {
			asked: "a", knows: "b", token: 8, a: wrote(false, 7, 7), b: wrote(true, 8, 8), want: "line of 8\n", by: "b",
		},
		"the replica that is asked is behind": {
			asked: "c", knows: "a", token: 7, a: wrote(false, 7, 7), aKnows: "b", aToken: 8, code: 503,
		},
		"all are behind": {
			asked: "c", knows: "a", token: 7, a: wrote(false, 7, 7), aKnows: "a", aToken: 7, want: "line of 7\n",
			by: "a", ended: "true",
		},
		"ended, and not owned": {
			asked: "a", token: 7, a: wrote(false, 7, 7), want: "line of 7\n", by: "a", ended: "true",
		},
		"not owned, and run elsewhere last": {asked: "a", token: 8, a: wrote(false, 7, 7), code: 404},
		"back again":                        {asked: "a", knows: "a", token: 9, a: wrote(true, 9, 7, 9), want: "line of 9\n", by: "a"},
		"restarts in place": {
			asked: "a", knows: "a", token: 9, a: wrote(true, 7, 7, 9), want: "line of 7\nline of 9\n", by: "a",
		},
		"previous": {
			asked: "c", knows: "a", token: 9, a: wrote(true, 7, 5, 7, 9), aKnows: "a", aToken: 9,
			query: "?previous=true",
			want:  "line of 7\n", by: "a",
		},
		"no previous": {
			asked: "a", knows: "a", token: 9, a: wrote(true, 9, 9), query: "?previous=true", want: "", by: "a",
		},
		"timestamps": {
			asked: "c", knows: "b", token: 8, b: wrote(true, 8, 8), query: "?timestamps=true",
			want: "2026-01-02T03:04:05Z line of 8\n", by: "b",
		},
		"of another instance": {
			asked: "c", knows: "b", token: 8, a: wrote(false, 7, 7), aKnows: "b", aToken: 8, b: wrote(true, 8, 8),
			query: "?instance=a", want: "line of 7\n", by: "a", ended: "true",
		},
		"of one that is not there": {asked: "a", knows: "a", token: 7, query: "?instance=z", code: 404},
		"neither true nor false":   {asked: "a", knows: "a", token: 7, query: "?previous=yes", code: 400},
	} {
		t.Run(name, func(t *testing.T) {
			a := httptest.NewServer(New(Config{Source: boardWith(owned("a", c.aKnows, c.aToken, nil)), Logs: c.a}))
			defer a.Close()
			b := httptest.NewServer(New(Config{Source: boardWith(owned("b", "b", 8, nil)), Logs: c.b}))
			defer b.Close()
			s := owned(c.asked, c.knows, c.token, map[string]string{"a": a.URL, "b": b.URL})
			if c.knows == "" {
				s.Tasks[0].Owner = api.Owner{FencingToken: c.token}
			}
			here := map[string]keeps{"a": c.a, "b": c.b}[c.asked]
			w := get(t, New(Config{Source: boardWith(s), Logs: here}), "/api/v1/tasks/topics/topic-0001/logs"+c.query)
			if c.code != 0 {
				if w.Code != c.code {
					t.Errorf("%d %s, want %d", w.Code, w.Body, c.code)
				}
				return
			}
			by, ended := w.Header().Get(api.LogInstanceHeader), w.Header().Get(api.LogEndedHeader)
			if w.Code != 200 || w.Body.String() != c.want || by != c.by || ended != c.ended {
				t.Errorf("%d %q by %q, ended %q; want %q by %q, ended %q", w.Code, w.Body, by, ended, c.want, c.by,
					c.ended)
			}
		})
	}
}
