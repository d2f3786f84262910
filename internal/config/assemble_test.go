package config

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"

	"github.com/shardctl/shardctl/internal/decode"
	"github.com/shardctl/shardctl/internal/kind"
	"github.com/shardctl/shardctl/internal/kinds"
	"github.com/shardctl/shardctl/internal/supervisor"
	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// What editors check by is what the program checks by.
func TestSchemaFileIsUpToDate(t *testing.T) {
	const path = "../../config/shardctl.schema.json"
	want := Schema(kinds.All(), kinds.Listers())
	if *update {
		write(t, path, want)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is not what base.schema.json and the kinds of tasks make: run go test ./internal/config -run "+
			"SchemaFile -update", path)
	}
}

// say is a kind of task that only this test knows: it hands a text on.
type say struct {
	Text  string
	Twice bool
	Every time.Duration
	to    chan<- string
}

type sayKind struct{ to chan<- string }

func (sayKind) Name() string { return "say" }

func (sayKind) Schema() string {
	return `{
  "description": "Says something.",
  "$comment": "a mapping with text, twice, every",
  "type": "object",
  "additionalProperties": false,
  "properties": {
    "text": {"$ref": "#/$defs/text"},
    "twice": {"$ref": "#/$defs/bool"},
    "every": {"$ref": "#/$defs/duration"}
  }
}`
}

func (sayKind) Fields() kind.Fields { return kind.Fields{Owned: []string{"restart", "retry"}} }

func (k sayKind) Parse(n *decode.Node, r *decode.Reader) kind.Runner {
	r.CheckStart(n, nil)
	return say{r.Text(n.Get("text"), ""), r.Truth(n.Get("twice")), r.Positive(n.Get("every"), time.Second, ""), k.to}
}

func (say) Kind() string { return "say" }

func (s say) Validate(kind.Use) []decode.FieldError {
	if s.Text == "" {
		return []decode.FieldError{{Path: []string{"text"}, Message: "is required"}}
	}
	return nil
}

func (s say) Print(kind.Use) any {
	return decode.Fields{
		{Name: "text", Value: s.Text}, {Name: "twice", Value: s.Twice}, {Name: "every", Value: decode.Short(s.Every)},
	}
}

func (s say) NeedsRestart(old tasks.Runner) bool { return old != tasks.Runner(s) }

func (s say) Run(ctx context.Context, env taskrun.Env) tasks.Ending {
	text, err := env.Expand("say.text", s.Text)
	if err != nil {
		return tasks.NotStarted(ctx, err)
	}
	s.to <- text
	return tasks.Ending{ByItself: true}
}

// A kind of task is one registration: this one is read from YAML, checked, printed and run, and nothing else knows
// of it.
func TestKindThatOnlyATestKnows(t *testing.T) {
	said := make(chan string, 10)
	all, err := kind.NewSet[kind.Kind](append(work.All(), sayKind{said})...)
	if err != nil {
		t.Fatal(err)
	}
	opts := Options{Env: testEnv, Kinds: all}
	path := t.TempDir() + "/a.yaml"
	write(t, path, group(
		"      - {name: 'a-{1..2}', restart: never, say: {text: '$(SHARDCTL_TASK) of $(WORD)', every: $(LONG)}}\n",
	))
	s, err := Load([]string{path}, opts)
	if err != nil {
		t.Fatal(err)
	}
	task := s.Groups[0].Tasks[1]
	if got := task.Runner.(say); got.Text != "$(SHARDCTL_TASK) of $(WORD)" || got.Every != time.Hour {
		t.Errorf("read %+v", got)
	}
	if out := printed(t, s); !strings.Contains(out, "say:\n          text: $(SHARDCTL_TASK) of $(WORD)\n") {
		t.Errorf("printed\n%s", out)
	}
	runs(t, task)
	if got := <-said; got != "a-2 of twenty" {
		t.Errorf("said %q", got)
	}

	write(t, path, group(`      - {name: a, say: {}}
      - {name: b, say: {txt: a, twice: maybe}}
      - {name: c, say: {text: a}, every: 1m}
      - {name: d, say: {text: a}, backoff: {initial: 2s}}
      - {name: e, say: {text: "$(NO)"}, exec: {command: [a]}}
      - {name: f, say: {text: "$(NO)"}}
`))
	_, err = Load([]string{path}, opts)
	const want = `:5:24: groups[0].tasks[0].say.text: is required
:6:24: groups[0].tasks[1].say.text: is required
:6:25: groups[0].tasks[1].say.txt: is not a field, did you mean text? allowed are every, text, twice
:6:40: groups[0].tasks[1].say.twice: is "maybe", must be true or false
:7:42: groups[0].tasks[2].every: does not go with say
:8:44: groups[0].tasks[3].backoff: does not go with say
:9:9: groups[0].tasks[4]: has exec and say, must have exactly one of exec, http, callback, say
:10:31: groups[0].tasks[5].say.text: $(NO) is not set, set it or write a default: $(NO:-TEXT)`
	if err == nil || strings.ReplaceAll(err.Error(), path, "") != want {
		t.Errorf("errors\n%v\nwant\n%s", err, want)
	}
}

// runs has a supervisor run a task until it has ended for good.
func runs(t *testing.T, task tasks.Task, change ...func(*supervisor.Config)) {
	t.Helper()
	cfg := supervisor.Config{
		Lease: 20 * time.Second, Logger: testr.New(t), Environ: func() []string { return []string{"WORD=twenty"} },
	}
	for _, c := range change {
		c(&cfg)
	}
	supervisor, err := supervisor.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer supervisor.Close()
	if err := supervisor.Run(t.Context(), task, held{key: task.Key()}); err == nil ||
		!strings.Contains(err.Error(), taskrun.ErrDone.Error()) {
		t.Errorf("Run returned %v", err)
	}
}

// held is a lease that never ends.
type held struct{ key elect.Key }

func (h held) Key() elect.Key    { return h.key }
func (held) Session() string     { return "session" }
func (held) Token() int64        { return 7 }
func (held) Valid() bool         { return true }
func (held) Deadline() time.Time { return time.Now().Add(time.Hour) }

func (held) Status() elect.TaskStatus                                 { return elect.TaskStatus{} }
func (held) Report(elect.TaskStatus)                                  {}
func (held) Advance(context.Context, elect.TaskStatus) (int64, error) { return 10, nil }
func (held) Value(context.Context) ([]byte, error)                    { return nil, nil }
func (held) SetValue(context.Context, []byte) error                   { return nil }
func (h held) Checkpoint() elect.Checkpoint                           { return h }

// The request of a tick is repeated under its key by another replica, and then it should be the same request.
func TestWarnsOfBodiesThatChange(t *testing.T) {
	for task, warned := range map[string]bool{
		`http: {url: "https://a.test", body: "$(SHARDCTL_FENCING_TOKEN)"}, every: 1m`:       true,
		`http: {url: "https://a.test", body: "by $(SHARDCTL_INSTANCE:-x)"}, every: 1m`:      true,
		`http: {url: "https://a.test", body: "$(SHARDCTL_SCHEDULED_AT)"}, every: 1m`:        false,
		`http: {url: "https://a.test", body: "$(SHARDCTL_FENCING_TOKEN)"}`:                  false,
		`http: {url: "https://a.test", headers: {T: $(SHARDCTL_FENCING_TOKEN)}}, every: 1m`: false,
	} {
		s := loadText(t, "store: {uri: \"sqlite:a.db\"}\ngroups:\n  - name: g\n    tasks:\n"+
			"      - {name: \"a{1,2}\", "+task+"}\n")
		if got := len(s.Warnings) == 1; got != warned || len(s.Warnings) > 1 {
			t.Errorf("%s: warnings %v, want one: %t", task, s.Warnings, warned)
		}
	}
}
