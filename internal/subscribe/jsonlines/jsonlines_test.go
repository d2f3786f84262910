package jsonlines

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/shardctl/shardctl/internal/kind"
	"github.com/shardctl/shardctl/internal/subscribe"
	"github.com/shardctl/shardctl/internal/subscribe/internal/flow"
	"github.com/shardctl/shardctl/internal/supervisor"
	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/tasks"
	"github.com/shardctl/shardctl/test/fakehold"
	"github.com/shardctl/shardctl/test/suites"
	"github.com/shardctl/shardctl/test/taskrig"
)

// opened is a receiver with what its processes write.
type opened struct {
	subscribe.Receiver
	lines *taskrig.Lines
	lease *fakehold.Hold
}

func open(t *testing.T, mode string, change ...func(*Sink)) opened {
	t.Helper()
	sink := sinkOf(t, mode)
	for _, c := range change {
		c(&sink)
	}
	lines := &taskrig.Lines{}
	o := openWith(t, sink, lines)
	o.lines = lines
	return o
}

func sinkOf(t *testing.T, mode string) Sink {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Sink{Command: []string{program}, Env: map[string]string{"MODE": mode}, Timeout: taskrig.Patience}
}

// openWith opens a receiver whose processes write to a log.
func openWith(t *testing.T, sink Sink, log taskrun.Sink) (o opened) {
	t.Helper()
	suites.Need(t, suites.Processes, "a real process")
	env, lease := taskrig.Env(t, func(c *supervisor.Config) { c.Output = log })
	o.lease = lease
	var err error
	if o.Receiver, err = sink.Open(t.Context(), env, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { o.close(t) })
	return o
}

func (o opened) close(t *testing.T) {
	t.Helper()
	if err := o.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

func delivery(id, body string) subscribe.Delivery {
	return subscribe.Delivery{
		Message: subscribe.Message{ID: id, Body: []byte(body)}, Attempt: 1, Start: tasks.Start{Token: 7},
	}
}

func (o opened) deliver(t *testing.T, deliveries ...subscribe.Delivery) []error {
	t.Helper()
	errs := o.Deliver(t.Context(), deliveries)
	if len(errs) != len(deliveries) {
		t.Fatalf("%d results of %d deliveries", len(errs), len(deliveries))
	}
	return errs
}

func TestMessagesAreLines(t *testing.T) {
	o := open(t, "echo")
	for _, test := range []struct {
		m    subscribe.Message
		want string
	}{
		{
			subscribe.Message{
				ID: "orders/3/42", Origin: "x1", Partition: "3", Key: []byte("k"), Type: "application/json",
				Again: true,
				Body:  []byte("{\n\"a\": [1.0, \"<\"]}"), Headers: map[string]string{"h": "1\n", "raw": "\xff"},
				Time: time.Date(2026, 3, 29, 1, 2, 3, 4, time.FixedZone("", 3600)),
			},
			`{"id":"orders/3/42","origin":"x1","partition":"3","key":"k","type":"application/json","headers":{"h":"1\n"},` +
				`"headers_base64":{"raw":"/w=="},"time":"2026-03-29T00:02:03.000000004Z","attempt":2,` +
				`"redelivered":true,"token":7,"data":{"a":[1.0,"<"]}}`,
		},
		{
			subscribe.Message{ID: "b\n1", Key: []byte("\xff"), Body: []byte("text\n")},
			`{"id":"b\\x0a1","key_base64":"/w==","type":"text/plain; charset=utf-8","attempt":2,"token":7,"data":"text\n"}`,
		},
		{
			subscribe.Message{ID: "c", Key: []byte(""), Body: []byte("\x00\xff")},
			`{"id":"c","key":"","type":"application/octet-stream","attempt":2,"token":7,"data_base64":"AP8="}`,
		},
		{subscribe.Message{ID: "d"}, `{"id":"d","attempt":2,"token":7,"traceparent":"00-1","tracestate":"v=1"}`},
		{
			subscribe.Message{ID: "e", Type: "application/json", Body: []byte("")},
			`{"id":"e","type":"application/json","attempt":2,"token":7,"data_base64":""}`,
		},
		{
			subscribe.Message{ID: "f", Type: "text/csv", Body: []byte("")},
			`{"id":"f","type":"text/csv","attempt":2,"token":7,"data":""}`,
		},
	} {
		d := subscribe.Delivery{Message: test.m, Attempt: 2, Start: tasks.Start{Token: 7, Attempt: 5}}
		if d.ID == "d" {
			d.Trace = taskrun.TraceContext{Parent: "00-1", State: "v=1"}
		}
		if err := o.deliver(t, d)[0]; err != nil {
			t.Errorf("%s: %v", test.m.ID, err)
		}
		id, _ := json.Marshal(strings.ReplaceAll(test.m.ID, "\n", `\x0a`))
		got := `{"id":` + string(id) + o.lines.With(t, `got {"id":`+string(id))
		if got != test.want {
			t.Errorf("line\n%s\nwant\n%s", got, test.want)
		}
	}
}

func TestAnswersComeInAnyOrder(t *testing.T) {
	o := open(t, "backwards")
	errs := make(chan error)
	for _, id := range []string{"a", "b", "c"} {
		go func() { errs <- o.Deliver(t.Context(), []subscribe.Delivery{delivery(id, "x")})[0] }()
	}
	for range 3 {
		if err := taskrig.Wait(t, errs, "an answer"); err != nil {
			t.Error(err)
		}
	}
}

func TestAnswers(t *testing.T) {
	o := open(t, "data")
	for say, want := range map[string]string{
		`{"id": "a", "ok": true}`:                 "",
		`{"id": "a", "ok": true, "error": null}`:  "",
		"  a\r":                                   "",
		`{"id": "a", "error": "no such order"}`:   "answered: no such order",
		`{"id": "a", "ok": true, "error": "x\n"}`: `answered: x\x0a`,
		`{"id": "a", "error": {"code": 3}}`:       `answered: {"code": 3}`,
		`{"id": "a", "ok": false}`:                "without ok: true",
		`{"id": "a"}`:                             "without ok: true",
		`{"id": "a", "error": "x", "dead": true}`: "answered: x",
		`{"id": "a", "dead": true}`:               "answered dead: true",
		`{"id": "a", "error": "x", "dead": "no"}`: "answered: x",
	} {
		d := delivery("a", say)
		d.Type = "text/plain"
		switch err := o.deliver(t, d)[0]; {
		case (want == "") != (err == nil):
			t.Errorf("%s: %v, want %q", say, err, want)
		case err != nil && !strings.Contains(err.Error(), want):
			t.Errorf("%s: %v, want %q", say, err, want)
		case err != nil && letterAfter(err) != strings.Contains(say, `"dead": true`):
			t.Errorf("%s: a dead letter at once: %v", say, letterAfter(err))
		}
	}
}

// letterAfter says whether a message becomes a dead letter at once after a delivery has ended with err.
func letterAfter(err error) bool {
	f := flow.New[string](flow.Rules{
		InFlight: 1, Batch: 1, DeadLetters: true, Delay: func(int) time.Duration { return time.Hour },
	})
	f.Received("a", "p", nil, flow.Past{})
	works, _ := f.Next(time.Now())
	f.Finished(works[0], []error{err}, time.Now())
	works, _ = f.Next(time.Now())
	return len(works) == 1 && works[0].DeadLetter
}

// A long error is cut between characters.
func TestLongErrorOfAProcess(t *testing.T) {
	a, ok := readAnswer(`{"id": "a", "error": "x` + strings.Repeat("ä", maxSaid) + `"}`)
	if !ok || a.err == nil || !utf8.ValidString(a.err.Error()) || !strings.HasSuffix(a.err.Error(), "ä…") {
		t.Errorf("%v %v", ok, a.err)
	}
}

// Lines that answer nothing are output, and the message is waited for.
func TestOtherLinesGoToTheLog(t *testing.T) {
	o := open(t, "data")
	long := strings.Repeat("x", 100<<10)
	for _, line := range []string{
		"working on it", `{"id": "b", "ok": true}`, `{"id": 1, "ok": true}`, `{"ok": true}`, "[]", "", long,
	} {
		d := delivery("a", line+"\n"+`{"id": "a", "ok": true}`)
		d.Type = "text/plain"
		if err := o.deliver(t, d)[0]; err != nil {
			t.Errorf("%.60s: %v", line, err)
		}
		o.lines.With(t, line[:min(len(line), 64<<10)])
	}
}

// unread is a log that takes no line.
type unread chan struct{}

func (u unread) Line(elect.Key, taskrun.Stream, string) { <-u }

// Lines for a log that takes none hold up no answer, however many they are.
func TestALogThatNobodyReads(t *testing.T) {
	log := make(unread)
	o := openWith(t, sinkOf(t, "echo"), log)
	for i := range 1_000 {
		if err := o.deliver(t, delivery(fmt.Sprint(i), "x"))[0]; err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
	}
	close(log)
}

func TestFields(t *testing.T) {
	wrong := Sink{Timeout: -1, Env: map[string]string{"SHARDCTL_KEY": "x"}}.Validate(kind.Use{})
	if got := fmt.Sprint(wrong); len(wrong) != 3 || !strings.Contains(got, "command: is required") ||
		!strings.Contains(got, "env.SHARDCTL_KEY: is set by shardctl") || !strings.Contains(got, "timeout: must be") {
		t.Errorf("%v", wrong)
	}
	shown := fmt.Sprint(Sink{Command: []string{"x", "http://u:secret@h"}}.Print(kind.Use{}))
	if strings.Contains(shown, "secret") || strings.Contains(shown, "ready") ||
		!strings.Contains(shown, "{timeout 30s}") {
		t.Errorf("it prints %s", shown)
	}
}
