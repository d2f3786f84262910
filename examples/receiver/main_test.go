package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/endpoint"
	"github.com/shardctl/shardctl/internal/subscribe"
	"github.com/shardctl/shardctl/internal/subscribe/cloudevents"
	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/tasks"
	"github.com/shardctl/shardctl/test/suites"
	"github.com/shardctl/shardctl/test/testprocess"
)

// patience is how long the tests wait for a line.
const patience = time.Minute

// started is a receiver that runs.
type started struct {
	address string
	lines   <-chan string // what it writes
}

func (s started) line(t *testing.T) string {
	t.Helper()
	select {
	case line := <-s.lines:
		return line
	case <-time.After(patience):
		t.Fatalf("waited %s for a line", patience)
		return ""
	}
}

func follow(t *testing.T, out io.Reader) started {
	t.Helper()
	lines := make(chan string, 100)
	go func() {
		for in := bufio.NewScanner(out); in.Scan(); {
			lines <- in.Text()
		}
	}()
	s := started{lines: lines}
	address, ok := strings.CutPrefix(s.line(t), "listening on ")
	if !ok {
		t.Fatal("it does not say where it listens")
	}
	s.address = address
	return s
}

func startGo(t *testing.T) started {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	read, write := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, "127.0.0.1:0", write) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		_ = write.Close() // ends who follows it
	})
	return follow(t, read)
}

func startPython(t *testing.T) started {
	t.Helper()
	testprocess.NeedPrograms(t, suites.Clients, "make clients-install", "python3")
	cmd := exec.CommandContext(t.Context(), "python3", "receiver.py", "--listen", "127.0.0.1:0")
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
		if said.Len() > 0 {
			t.Errorf("it says %s", said.String())
		}
	})
	return follow(t, out)
}

// lease is of the key g/NAME.
type lease struct {
	tasks.Lease
	name string
}

func (l lease) Key() elect.Key  { return elect.NewKey("g", l.name) }
func (l lease) Session() string { return "s" }

// clients gives the HTTP clients that a run has.
type clients struct{ taskrun.Clients }

func (*clients) AcquireSlot(context.Context) (done func(), err error) { return func() {}, nil }

// deliver delivers messages as a run of the task g/NAME with this token does.
func (s started) deliver(t *testing.T, name string, token int64, messages ...subscribe.Message) []error {
	t.Helper()
	c := &clients{}
	defer c.Close()
	start := tasks.Start{Token: token, Attempt: 1}
	receiver, err := cloudevents.Sink{
		Endpoint:  endpoint.Endpoint{URL: "http://" + s.address},
		BatchSize: 10,
	}.Open(t.Context(), taskrun.Env{
		Identity: tasks.Identity{Group: "g", Name: name}, Start: start, Lease: lease{name: name},
		Host: taskrun.Host{Instance: "a", HTTP: c, Environ: func() []string { return nil }},
	}, "kafka:orders")
	if err != nil {
		t.Fatal(err)
	}
	deliveries := make([]subscribe.Delivery, len(messages))
	for i, m := range messages {
		deliveries[i] = subscribe.Delivery{Message: m, Attempt: 1, Start: start}
	}
	errs := receiver.Deliver(t.Context(), deliveries)
	if err := receiver.Close(t.Context()); err != nil {
		t.Error(err)
	}
	return errs
}

// worked waits for the line of a message.
func (s started) worked(t *testing.T, id, token, body string) {
	t.Helper()
	if got, want := s.line(t), id+" "+token+" "+base64.StdEncoding.EncodeToString([]byte(body)); got != want {
		t.Errorf("it worked on %s, want %s", got, want)
	}
}

func eachReceiver(t *testing.T, test func(t *testing.T, s started)) {
	t.Helper()
	t.Run("Go", func(t *testing.T) { test(t, startGo(t)) })
	t.Run("Python", func(t *testing.T) { test(t, startPython(t)) })
}

func TestMessagesAreWorkedOn(t *testing.T) {
	eachReceiver(t, func(t *testing.T, s started) {
		t.Helper()
		messages := []subscribe.Message{
			{ID: "größe/1/%41", Body: []byte("\x00\xff\r\n")},
			{ID: "json", Type: "application/json", Body: []byte(`{"a":["ü",1]}`)},
			{ID: "text", Type: "text/plain", Body: []byte("a \"text\"\n")},
			{ID: "vendor", Type: "application/vnd.x+json", Body: []byte(`{"a": 1}`)},
			{ID: "broken", Type: "application/json", Body: []byte(`{"a"`)},
		}
		for _, m := range messages { // in binary mode
			if err := s.deliver(t, "n", 7, m)[0]; err != nil {
				t.Errorf("%s: %v", m.ID, err)
			}
			s.worked(t, m.ID, "7", string(m.Body))
		}
		empty := subscribe.Message{ID: "empty", Type: "text/plain", Body: []byte("")}
		for i, err := range s.deliver(t, "n", 7, append(messages, empty)...) { // in batched mode
			switch {
			case i < len(messages) && err != nil:
				t.Errorf("%s: %v", messages[i].ID, err)
			case i < len(messages):
				s.worked(t, messages[i].ID, "7", string(messages[i].Body))
			case err == nil || !strings.Contains(err.Error(), "there is nothing in it"):
				t.Errorf("of the empty message: %v", err)
			}
		}
		if err := s.deliver(t, "n", 7, empty)[0]; err == nil || !strings.Contains(err.Error(), "422") ||
			!strings.Contains(err.Error(), "there is nothing in it") {
			t.Errorf("of the empty message: %v", err)
		}
	})
}

func TestOldTokensAreRejected(t *testing.T) {
	eachReceiver(t, func(t *testing.T, s started) {
		t.Helper()
		m := subscribe.Message{ID: "m", Body: []byte("x")}
		for _, step := range []struct {
			name  string
			token int64
			old   bool
		}{
			{"n", 8, false},
			{"n", 7, true},
			{"n", 8, false},
			{"other", 1, false},
			{"n", 9, false},
			{"n", 8, true},
			{"other", 1, false},
		} {
			for _, messages := range [][]subscribe.Message{{m}, {m, m}} { // binary, batched
				for _, err := range s.deliver(t, step.name, step.token, messages...) {
					if step.old != (err != nil) || err != nil && !strings.Contains(err.Error(), "409 Conflict: token") {
						t.Errorf("%s with token %d: %v", step.name, step.token, err)
					}
					if !step.old {
						s.line(t)
					}
				}
			}
		}
		select {
		case line := <-s.lines:
			t.Errorf("it worked on %s", line)
		default:
		}
	})
}

func TestOtherRequestsAreRefused(t *testing.T) {
	eachReceiver(t, func(t *testing.T, s started) {
		t.Helper()
		for body, headers := range map[string]map[string]string{
			"no token": {"Ce-Id": "1", "Shardctl-Key": "g/n"},
			"no key":   {"Ce-Id": "1", "Shardctl-Fencing-Token": "1"},
			"no id":    {"Shardctl-Fencing-Token": "1", "Shardctl-Key": "g/n"},
			"no batch": {
				"Shardctl-Fencing-Token": "1", "Shardctl-Key": "g/n",
				"Content-Type": "application/cloudevents-batch+json",
			},
		} {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+s.address,
				strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			for name, value := range headers {
				request.Header.Set(name, value)
			}
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			_ = response.Body.Close()
			if response.StatusCode != http.StatusBadRequest {
				t.Errorf("%s: %s", body, response.Status)
			}
		}
		large := subscribe.Message{ID: "large", Body: make([]byte, maxBody+1)}
		if err := s.deliver(t, "n", 7, large)[0]; err == nil {
			t.Error("a message that is too large was taken")
		}
		http.DefaultClient.CloseIdleConnections()
	})
}
