package jsonlines

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/shardctl/shardctl/internal/subscribe"
	"github.com/shardctl/shardctl/internal/subscribe/internal/flow"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/test/taskrig"
)

// This program is the process that takes messages, too: MODE says what it does.
func TestMain(m *testing.M) {
	if mode := os.Getenv("MODE"); mode != "" {
		help(mode)
		return
	}
	goleak.VerifyTestMain(m)
}

func say(text string) { fmt.Fprintln(os.Stdout, text) }

func help(mode string) {
	if strings.HasPrefix(mode, "deaf") {
		signal.Ignore(syscall.SIGTERM)
	}
	fmt.Fprintln(os.Stderr, "pid "+strconv.Itoa(os.Getpid()))
	in := bufio.NewReader(os.Stdin)
	var held []string
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			break
		}
		var m struct {
			ID   string `json:"id"`
			Data any    `json:"data"`
		}
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			say("no JSON: " + line)
			os.Exit(9)
		}
		held = act(mode, held, m.ID, line, fmt.Sprint(m.Data))
	}
	say("input ended")
	if mode == "deaf" {
		time.Sleep(time.Hour)
	}
}

// act does what the mode says with a message, and returns the IDs that it holds back.
func act(mode string, held []string, id, line, data string) []string {
	quoted, _ := json.Marshal(id)
	switch mode {
	case "ok":
		say(`{"id": ` + string(quoted) + `, "ok": true}`)
	case "echo": // the line as it came, and then the bare id
		say("got " + strings.TrimSpace(line))
		say(id)
	case "backwards":
		if held = append([]string{id}, held...); len(held) == 3 {
			say(strings.Join(held, "\n"))
		}
	case "data": // what the message says
		say(data)
	case "exit":
		say(`{"id": "other", "ok": true}`)
		os.Exit(3)
	case "poison": // ends with one message, and answers others after a while
		if data == "bad" {
			os.Exit(3)
		}
		time.AfterFunc(20*time.Millisecond, func() { say(id) })
	case "last": // answers, and ends
		say(id)
		os.Exit(0)
	case "silent":
		_ = os.Stdout.Close()
		_, _ = io.Copy(io.Discard, os.Stdin)
	case "blind":
		_ = os.Stdin.Close()
		time.Sleep(time.Hour)
	case "stuck", "deafstuck":
		time.Sleep(time.Hour)
	}
	return held
}

func TestProcessThatEndsIsStartedAgain(t *testing.T) {
	for mode, want := range map[string]string{
		"exit": "exec: the process has ended: exit status 3", "silent": "exec: the process closed its standard output",
	} {
		t.Run(mode, func(t *testing.T) {
			o := open(t, mode)
			for range 2 { // the second one is another process's
				if err := o.deliver(t, delivery("a", "x"))[0]; err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%v, want %s", err, want)
				}
			}
		})
	}
	o := open(t, "last")
	for i := range 3 {
		if err := o.deliver(t, delivery(strconv.Itoa(i), "x"))[0]; err != nil {
			t.Errorf("its last answer does not count: %v", err)
		}
		taskrig.Wait(t, o.Receiver.(*receiver).now.over, "the end")
	}
}

// One message ends the process again and again. Those that the process has besides do not become dead letters for it.
func TestOneMessageThatEndsTheProcess(t *testing.T) {
	o := open(t, "poison")
	f := flow.New[subscribe.Delivery](flow.Rules{
		InFlight: 10, Batch: 1, Attempts: 3, DeadLetters: true, Delay: func(int) time.Duration { return time.Millisecond },
	})
	for i := range 10 {
		body := "good"
		if i == 9 {
			body = "bad"
		}
		f.Received(delivery(strconv.Itoa(i), body), "p", nil, flow.Past{})
	}
	type ended struct {
		work flow.Work[subscribe.Delivery]
		errs []error
	}
	results := make(chan ended)
	letters, done := []string{}, 0
	for done < 10 {
		works, wake := f.Next(time.Now())
		for _, w := range works {
			go func() {
				if w.DeadLetter {
					results <- ended{w, []error{nil}}
					return
				}
				results <- ended{w, o.Deliver(t.Context(), []subscribe.Delivery{w.Items[0].Message})}
			}()
		}
		var again <-chan time.Time
		if !wake.IsZero() {
			again = time.After(time.Until(wake))
		}
		select {
		case r := <-results:
			f.Finished(r.work, r.errs, time.Now())
			if r.work.DeadLetter {
				letters = append(letters, r.work.Items[0].Message.ID)
			}
		case <-again:
		}
		done += len(f.Acks())
	}
	if !slices.Equal(letters, []string{"9"}) {
		t.Errorf("dead letters: %v, want 9 alone", letters)
	}
}

func TestProcessThatDoesNotRead(t *testing.T) {
	o := open(t, "blind")
	big := strings.Repeat("x", 1<<20) // more than a pipe holds
	if err := o.deliver(t, delivery("a", "x"), delivery("b", big))[1]; err == nil ||
		!strings.Contains(err.Error(), "closed its standard input") {
		t.Errorf("%v", err)
	}
	o = open(t, "stuck", func(s *Sink) { s.Timeout = 300 * time.Millisecond })
	errs := o.deliver(t, delivery("a", "x"), delivery("b", big))
	for _, err := range errs {
		if err == nil || !strings.Contains(err.Error(), "within the timeout of 300ms") {
			t.Errorf("%v", err)
		}
	}
}

// A process that does not answer is gone before another one is started, and with it all that it was given.
func TestProcessThatDoesNotAnswer(t *testing.T) {
	o := open(t, "stuck", func(s *Sink) { s.Timeout = 300 * time.Millisecond })
	var both sync.WaitGroup
	for _, id := range []string{"a", "b"} {
		both.Go(func() {
			err := o.Deliver(t.Context(), []subscribe.Delivery{delivery(id, "x")})[0]
			if err == nil || !strings.Contains(err.Error(), "did not answer message") {
				t.Errorf("%s: %v", id, err)
			}
		})
	}
	both.Wait()
	first := o.Receiver.(*receiver).now
	if err := o.deliver(t, delivery("a", "x"))[0]; err == nil {
		t.Error("a process that never answers has answered")
	}
	select {
	case <-first.gone:
	default:
		t.Error("two processes ran at once")
	}
}

func TestDeliveryEndsWithItsContext(t *testing.T) {
	o := open(t, "stuck")
	pid := pidOf(t, o.lines)
	ctx, cancel := context.WithCancelCause(t.Context())
	errs := make(chan []error)
	go func() {
		errs <- o.Deliver(ctx, []subscribe.Delivery{delivery("a", "x"), delivery("b", strings.Repeat("x", 1<<20))})
	}()
	cancel(elect.ErrLeaseLost)
	for _, err := range taskrig.Wait(t, errs, "the end of the delivery") {
		if !errors.Is(err, elect.ErrLeaseLost) {
			t.Errorf("%v, want why its context ended", err)
		}
	}
	o.close(t)
	if err := syscall.Kill(pid, 0); err == nil {
		t.Error("the process is left")
	}
}

func pidOf(t *testing.T, lines *taskrig.Lines) int {
	t.Helper()
	pid, err := strconv.Atoi(lines.With(t, "pid "))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// The end of its input comes first, and is enough for a process that heeds it.
func TestCloseEndsTheProcess(t *testing.T) {
	o := open(t, "ok")
	if err := o.deliver(t, delivery("a", "x"))[0]; err != nil {
		t.Fatal(err)
	}
	pid := pidOf(t, o.lines)
	o.close(t)
	o.lines.With(t, "input ended")
	if err := syscall.Kill(pid, 0); err == nil {
		t.Error("the process is left")
	}
	if err := o.deliver(t, delivery("b", "x"))[0]; err != nil {
		t.Fatal(err) // a second process, for the test that follows
	}
}

// One that heeds neither that nor the signal is killed in time for the lease's end, however long stop.timeout is.
func TestCloseAfterTheLeaseIsLost(t *testing.T) {
	o := open(t, "deaf")
	pid := pidOf(t, o.lines)
	o.lease.Freeze(3 * time.Second) // less a tenth of the lease of 20 s: one second is left
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(elect.ErrLeaseLost)
	began := time.Now()
	if err := o.Close(ctx); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); syscall.Kill(pid, 0) == nil || took < 500*time.Millisecond || took > 8*time.Second {
		t.Errorf("closed after %s, want it killed after 1 s, since stop.timeout is 10 s", took)
	}
}

// Once the time to stop in is over there is no more of it, whatever stop.timeout is.
func TestCloseInAHurry(t *testing.T) {
	o := open(t, "deaf")
	pid := pidOf(t, o.lines)
	ctx, cancel := context.WithTimeout(t.Context(), inputEnd+500*time.Millisecond) // stop.timeout is 10 s
	defer cancel()
	began := time.Now()
	if err := o.Close(ctx); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); syscall.Kill(pid, 0) == nil || took > 8*time.Second {
		t.Errorf("closed after %s, want it killed when the context ends", took)
	}
	o = open(t, "deafstuck")
	pid = pidOf(t, o.lines)
	ctx, cancel = context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	began = time.Now()
	if err := o.Deliver(ctx, []subscribe.Delivery{delivery("a", "x")})[0]; !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if err := o.Close(ctx); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); syscall.Kill(pid, 0) == nil || took > 8*time.Second {
		t.Errorf("closed after %s, want it killed when the delivery's context ends", took)
	}
}

func TestProcessThatCannotStart(t *testing.T) {
	env, _ := taskrig.Env(t)
	for want, sink := range map[string]Sink{
		"exec.command[0]: $(NOT_SET) is not set":   {Command: []string{"$(NOT_SET)"}},
		`program "no-such-program" is not in PATH`: {Command: []string{"no-such-program"}},
	} {
		if _, err := sink.Open(t.Context(), env, ""); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
