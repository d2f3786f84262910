package jsonlines

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/shardctl/shardctl/internal/subscribe"
	"github.com/shardctl/shardctl/internal/subscribe/internal/payload"
	"github.com/shardctl/shardctl/internal/supervisor"
	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/test/taskrig"
)

// scripted starts no process: it writes what the function says of a message's ID to the standard output, through real
// pipes.
type scripted func(id string) string

func (s scripted) Start(_ context.Context, c taskrun.Command) (taskrun.Process, error) {
	in, err := duplicate(c.Stdin)
	if err != nil {
		return nil, err
	}
	out, err := duplicate(c.Stdout)
	if err != nil {
		return nil, err
	}
	over := make(stoodFor)
	go func() {
		defer close(over)
		defer func() { _ = out.Close() }()
		for lines := bufio.NewReader(in); ; {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				_ = in.Close()
				return
			}
			var m message
			if json.Unmarshal(line, &m) == nil {
				_, _ = out.WriteString(s(m.ID))
			}
		}
	}()
	return over, nil
}

// duplicate opens what f is once more: the caller of Start closes its own.
func duplicate(f *os.File) (*os.File, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	copied := -1
	var failed error
	if err := raw.Control(func(fd uintptr) { copied, failed = syscall.Dup(int(fd)) }); err != nil {
		return nil, err
	}
	if failed != nil {
		return nil, failed
	}
	syscall.CloseOnExec(copied)
	return os.NewFile(uintptr(copied), f.Name()), nil
}

// stoodFor is a process that ends with its input.
type stoodFor chan struct{}

func (stoodFor) PID() int                      { return 1 }
func (stoodFor) Stop(os.Signal, time.Duration) {}
func (s stoodFor) Exited() <-chan struct{}     { return s }
func (s stoodFor) Gone() <-chan struct{}       { return s }
func (stoodFor) Exit() taskrun.Exit            { return taskrun.Exit{} }

// answering opens a receiver whose process is scripted, with what goes to the log in its place.
func answering(t *testing.T, say scripted) (subscribe.Receiver, *taskrig.Lines) {
	t.Helper()
	lines := &taskrig.Lines{}
	env, _ := taskrig.Env(t, func(c *supervisor.Config) { c.Output, c.Starter = lines, say })
	r, err := Sink{Command: []string{"scripted"}, Timeout: taskrig.Patience}.Open(
		t.Context(), env, "",
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return r, lines
}

// oddIDs are IDs as brokers and publishers make them: names of streams and topics come first in them.
var oddIDs = []string{
	"orders/3/42", "{orders}:eu/1-0", `{"id": "b", "ok": true}`, `{"id": 1}`, "{", "[1]", `"quoted"`, "null", " a b ",
	"\tx", "a\nb", "a\rb", "\xff{", "é", strings.Repeat("topic/", 20_000),
}

// forms are the answers that a process may give, by what they say.
var forms = map[string]func(id string) string{
	"the bare id":      func(id string) string { return id },
	"and a return":     func(id string) string { return id + "\r" },
	"ok":               func(id string) string { return `{"id": ` + quoted(id) + `, "ok": true}` },
	"spaces around it": func(id string) string { return "  " + `{"id": ` + quoted(id) + `, "ok": true}` + " \r" },
	"a long error": func(id string) string {
		return `{"id": ` + quoted(id) + `, "error": "` + strings.Repeat("at é ", 20_000) + `"}`
	},
	"a dead one": func(id string) string {
		return `{"error": "` + strings.Repeat("x", 900_000) + `", "dead": true, "id": ` + quoted(id) + `}`
	},
}

// quoted is a text as JSON writes it, without the replacements for HTML.
func quoted(text string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(text) // a text can be encoded
	return strings.TrimSpace(b.String())
}

// Every ID is answered by every form of an answer, however it looks and however long the line is. Other messages are
// waited for meanwhile, and an ID that looks like the answer to one of them is none.
func TestEveryIDIsAnsweredByEveryForm(t *testing.T) {
	for name, form := range forms {
		t.Run(name, func(t *testing.T) {
			r, _ := answering(t, func(id string) string {
				if id == "b" {
					return ""
				}
				return form(id) + "\n"
			})
			waiting, stop := context.WithCancel(t.Context())
			defer stop()
			other := make(chan []error, 1)
			go func() { other <- r.Deliver(waiting, []subscribe.Delivery{delivery("b", "x")}) }()
			want := ""
			if strings.Contains(form("i"), "error") {
				want = "the process answered: "
			}
			for _, id := range oddIDs {
				err := r.Deliver(t.Context(), []subscribe.Delivery{delivery(id, "x")})[0]
				if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
					t.Fatalf("%.40q: %.200v, want %q", id, err, want)
				}
			}
			select {
			case errs := <-other:
				t.Errorf("message b was not answered, and ended with %v", errs)
			default:
			}
			stop()
			<-other
		})
	}
}

// A line that is too long for an answer is output, and no piece of it answers anything.
func TestPiecesOfALineAnswerNothing(t *testing.T) {
	const most = 1 << 20
	r, lines := answering(t, func(id string) string {
		return strings.Repeat("z", most) + id + "\n" + `{"id": ` + quoted(id) + `, "error": "why"}` + "\n"
	})
	err := r.Deliver(t.Context(), []subscribe.Delivery{delivery("a", "x")})[0]
	if err == nil || !strings.Contains(err.Error(), "answered: why") {
		t.Errorf("%v, want the answer of the line after it", err)
	}
	lines.With(t, "a")
}

// Of a long line each piece in the log is text, as the line was.
func TestPiecesInTheLogAreText(t *testing.T) {
	r, lines := answering(t, func(id string) string {
		return "x" + strings.Repeat("é", 75_000) + "\nend\n" + id + "\n"
	})
	if err := r.Deliver(t.Context(), []subscribe.Delivery{delivery("a", "x")})[0]; err != nil {
		t.Fatal(err)
	}
	lines.With(t, "end")
	if rest := lines.With(t, "x"); !utf8.ValidString(rest) || len(rest) < 60<<10 {
		t.Errorf("the first piece has %d bytes, and is text: %t", len(rest), utf8.ValidString(rest))
	}
	if rest := lines.With(t, "é"); payload.Clean(rest) != rest {
		t.Errorf("the second piece begins with %.20q", rest)
	}
}
