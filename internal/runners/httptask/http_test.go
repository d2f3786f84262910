package httptask

import (
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/shardctl/shardctl/internal/endpoint"
	"github.com/shardctl/shardctl/internal/kind"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/internal/supervisor"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/tasks"
	"github.com/shardctl/shardctl/test/taskrig"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeEndpoint answers requests without a network, which does not go with bubbles of false time.
type fakeEndpoint struct {
	mu      sync.Mutex
	began   time.Time
	seen    []string // EVENT@SECOND
	headers []http.Header
	leases  []time.Time
	answer  func(event string, at time.Duration) (status int, err error)
	missing bool          // a start or renew came without a remote lease before it
	deaf    error         // of what hears of leases
	slow    time.Duration // that a request takes
	alarms  []string      // stuck@SECOND, ended@SECOND
}

func (f *fakeEndpoint) alarm(what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.alarms = append(f.alarms, fmt.Sprintf("%s@%.0f", what, time.Since(f.began).Seconds()))
}

func (f *fakeEndpoint) RoundTrip(request *http.Request) (*http.Response, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	event, at := request.Header.Get("Shardctl-Event"), time.Since(f.began)
	f.seen = append(f.seen, event+"@"+strconv.FormatFloat(at.Seconds(), 'f', 0, 64))
	f.headers = append(f.headers, request.Header)
	if event != eventTick && event != eventStop {
		last := len(f.leases) - 1
		validFor, err := time.ParseDuration(request.Header.Get("Shardctl-Valid-For") + "s")
		if err != nil || last < 0 || f.leases[last].Before(time.Now().Add(validFor)) {
			f.missing = true
		}
	}
	status, err := http.StatusNoContent, error(nil)
	if f.answer != nil {
		status, err = f.answer(event, at)
	}
	if err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: status, Status: http.StatusText(status), Body: io.NopCloser(strings.NewReader("")),
		Request: request,
	}, nil
}

func (f *fakeEndpoint) events() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.seen)
}

// supervised makes a supervisor whose requests all go to f.
func supervised(t *testing.T, f *fakeEndpoint) *supervisor.Supervisor {
	t.Helper()
	return supervisorOver(t, f, f)
}

// supervisorOver makes one whose requests reach f over a transport.
func supervisorOver(t *testing.T, f *fakeEndpoint, transport http.RoundTripper) *supervisor.Supervisor {
	t.Helper()
	f.began = time.Now()
	s := taskrig.New(t, func(c *supervisor.Config) {
		c.HTTPClient = func(string) (*http.Client, error) { return &http.Client{Transport: transport}, nil }
		c.RemoteLease = func(_ elect.Key, _ string, until time.Time) error {
			time.Sleep(f.slow)
			f.mu.Lock()
			defer f.mu.Unlock()
			f.leases = append(f.leases, until)
			return f.deaf
		}
		c.OnStuck = func(tasks.Task, time.Time) { f.alarm("stuck") }
		c.OnUnstuck = func(tasks.Task) { f.alarm("ended") }
	})
	return s
}

func httpTask() tasks.Task {
	runner := Runner{Endpoint: endpoint.Endpoint{URL: "http://far.example/hook"}, Timeout: 2 * time.Second}
	return tasks.Task{Identity: tasks.Identity{Group: "g", Name: "n"}, Runner: runner}
}

func TestEndpointIsStartedRenewedAndStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the lease is 20 s, the hold's deadline always 18 s away
		f := &fakeEndpoint{}
		s := supervised(t, f)
		hold := taskrig.Hold(httpTask())
		stop, done := taskrig.Run(t, s, httpTask(), hold)
		time.Sleep(25 * time.Second) // longer than the first remote lease
		synctest.Wait()
		if st := hold.Status().State; st != record.StateRunning {
			t.Errorf("state %s", st)
		}
		stop(elect.ErrReleased)
		if err := <-done; !errors.Is(err, elect.ErrReleased) {
			t.Errorf("Run returned %v", err)
		}
		if want := []string{"start@0", "renew@7", "renew@13", "renew@20", "stop@25"}; !slices.Equal(f.events(), want) {
			t.Errorf("%v, want %v", f.events(), want)
		}
		for i, want := range []string{
			"g/n#7/start/1", "g/n#7/renew/2", "g/n#7/renew/3", "g/n#7/renew/4", "g/n#7/stop/5",
		} {
			validFor := "16"
			if i == 4 {
				validFor = "0"
			}
			h := f.headers[i]
			if h.Get("Idempotency-Key") != want || h.Get("Shardctl-Valid-For") != validFor ||
				h.Get("Shardctl-Fencing-Token") != "7" || h.Get("Shardctl-Key") != "g/n" {
				t.Errorf("headers %v", h)
			}
		}
		if f.missing {
			t.Error("an endpoint heard before the remote lease was noted, or for longer")
		}
		if last := f.leases[len(f.leases)-1]; !last.IsZero() {
			t.Errorf("after an acknowledged stop the remote lease ends %s", last)
		}
	})
}

func TestFailedStartIsRetriedAfterBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeEndpoint{answer: func(_ string, at time.Duration) (int, error) {
			if at == 0 {
				return http.StatusServiceUnavailable, nil
			}
			return http.StatusOK, nil
		}}
		s := supervised(t, f)
		hold := taskrig.Hold(httpTask())
		_, _ = taskrig.Run(t, s, httpTask(), hold)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if n := len(f.events()); n != 2 || f.headers[1].Get("Idempotency-Key") != "g/n#10/start/1" {
			t.Errorf("events %v, second %v", f.events(), f.headers[n-1])
		}
		if st := hold.Status(); st.State != record.StateRunning || st.Restarts != 1 ||
			!strings.Contains(st.LastError, "Service Unavailable") {
			t.Errorf("status %+v", st)
		}
	})
}

func TestUnrenewedEndpointIsStartedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeEndpoint{answer: func(event string, at time.Duration) (int, error) {
			if event == eventRenew && at < 20*time.Second {
				return http.StatusBadGateway, nil
			}
			return http.StatusOK, nil
		}}
		s := supervised(t, f)
		_, _ = taskrig.Run(t, s, httpTask(), taskrig.Hold(httpTask()))
		time.Sleep(25 * time.Second)
		synctest.Wait()
		events := f.events()
		again := slices.IndexFunc(events[1:], func(e string) bool { return strings.HasPrefix(e, eventStart) }) + 1
		if again < 10 {
			t.Fatalf("events %v, want many renewals and then a start", events)
		}
		if !slices.Contains([]string{"start@18", "start@19"}, events[again]) ||
			f.headers[again].Get("Shardctl-Fencing-Token") != "10" {
			t.Errorf(
				"%s with token %s, want it when the 18 s of the first remote lease are over", events[again],
				f.headers[again].Get("Shardctl-Fencing-Token"),
			)
		}
	})
}

func TestUnacknowledgedStopHoldsTheKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeEndpoint{answer: func(event string, _ time.Duration) (int, error) {
			if event == eventStop {
				return 0, io.ErrUnexpectedEOF
			}
			return http.StatusOK, nil
		}}
		s := supervised(t, f)
		task := httpTask()
		task.Stop.Timeout = time.Second
		stop, done := taskrig.Run(t, s, task, taskrig.Hold(task))
		time.Sleep(10 * time.Second) // renewed at 6.67 s, so promised until 24.67 s
		stop(elect.ErrReleased)
		taskrig.Ended(t, done, "the end")
		if took := time.Since(f.began); took < 24*time.Second || took > 25*time.Second {
			t.Errorf("the key was held for %s, want until the remote lease was over", took)
		}
		if want := []string{"stuck@16", "ended@25"}; !slices.Equal(f.alarms, want) {
			t.Errorf("alarms %q, want %q: 5 s after stop.timeout, until the key is free", f.alarms, want)
		}
	})
}

func TestTickAsRequest(t *testing.T) {
	dir := t.TempDir()
	tokenFile, caFile := filepath.Join(dir, "token"), filepath.Join(dir, "ca.pem")
	if err := os.WriteFile(tokenFile, []byte("first\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	type seen struct {
		header       http.Header
		method, body string
	}
	requests := make(chan seen, 100)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		requests <- seen{r.Header, r.Method, string(body)}
		if r.URL.Path == "/moved" {
			http.Redirect(w, r, "/hook", http.StatusFound)
		}
	}))
	defer server.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(caFile, ca, 0o600); err != nil {
		t.Fatal(err)
	}
	q := &sender{environ: []string{"HOST=" + server.URL, "TEAM=core"}}
	defer q.Close()
	runner := Runner{Endpoint: endpoint.Endpoint{
		URL: "$(HOST)/$(PAGE:-hook)", Method: "PUT",
		Headers: map[string]string{"Team": "$(TEAM)", "Shardctl-Key": "forged"}, TokenFile: tokenFile, CAFile: caFile,
	}, Body: "task $(SHARDCTL_TASK)"}
	task := tasks.Task{Identity: tasks.Identity{Group: "g", Name: "n"}}
	at := time.Date(2026, 3, 29, 1, 0, 0, 0, time.UTC)
	tick := func(r Runner) error {
		task.Runner = r
		return r.Run(t.Context(), q.env(task, tasks.Start{Token: 9, Attempt: 1, ScheduledAt: at})).Err
	}
	if err := tick(runner); err != nil {
		t.Fatal(err)
	}
	got := taskrig.Wait(t, requests, "the request")
	for name, want := range map[string]string{
		"Shardctl-Task": "n", "Shardctl-Group": "g", "Shardctl-Key": "g/n", "Shardctl-Fencing-Token": "9",
		"Shardctl-Instance": "a", "Shardctl-Event": "tick",
		"Shardctl-Scheduled-At": "2026-03-29T01:00:00Z", "Idempotency-Key": "g/n@2026-03-29T01:00:00Z", "Team": "core",
		"Authorization": "Bearer first", "Shardctl-Valid-For": "",
	} {
		if got.header.Get(name) != want {
			t.Errorf("%s: %q, want %q", name, got.header.Get(name), want)
		}
	}
	if got.method != "PUT" || got.body != "task n" {
		t.Errorf("%s %q", got.method, got.body)
	}
	if err := os.WriteFile(tokenFile, []byte("second"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := tick(runner); err != nil {
		t.Fatal(err)
	}
	if got := taskrig.Wait(t, requests, "the request").header.Get("Authorization"); got != "Bearer second" {
		t.Errorf("the token was not read again: %q", got)
	}
	object := runner
	object.Body, object.JSON = "", map[string]string{"topic": "$(NAME)", "task": "$(SHARDCTL_TASK)", "a": "b"}
	q.environ = append(q.environ, `NAME=x", "admin": "true`)
	if err := tick(object); err != nil {
		t.Fatal(err)
	}
	got = taskrig.Wait(t, requests, "the request")
	if got.body != `{"a":"b","task":"n","topic":"x\", \"admin\": \"true"}` ||
		got.header.Get("Content-Type") != "application/json" {
		t.Errorf("%s of type %s", got.body, got.header.Get("Content-Type"))
	}
	object.Headers = map[string]string{"Content-Type": "application/vnd.x+json"}
	object.JSON = map[string]string{"a": ""}
	if err := tick(object); err != nil {
		t.Fatal(err)
	}
	if got = taskrig.Wait(t, requests, "the request"); got.body != `{"a":""}` ||
		got.header.Get("Content-Type") != "application/vnd.x+json" {
		t.Errorf("%s of type %s", got.body, got.header.Get("Content-Type"))
	}
	object.JSON = map[string]string{"x": "$(NOT_SET)"}
	if err := tick(object); err == nil || !strings.Contains(err.Error(), "http.json.x: $(NOT_SET) is not set") {
		t.Errorf("%v", err)
	}
	if wrong := (Runner{
		Endpoint: endpoint.Endpoint{URL: "http://a"}, Body: "x",
		JSON: object.JSON,
	}).Validate(kind.Use{Ticks: true}); len(wrong) != 1 ||
		wrong[0].Path[0] != "json" {
		t.Errorf("both a body and JSON: %v", wrong)
	}
	runner.URL = "$(HOST)/moved"
	if err := tick(runner); err == nil || !strings.Contains(err.Error(), "302") || len(requests) != 1 {
		t.Errorf("a redirect gave %v", err)
	}
	runner.CAFile = ""
	if err := tick(runner); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("without caFile: %v", err)
	}
	for url, want := range map[string]string{
		"$(NOT_SET)": "http.url: $(NOT_SET) is not set", "http://u:$(HOST)@x:port/": "http.url",
	} {
		runner.URL = url
		err := tick(runner)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), server.URL) {
			t.Errorf("%s: %v, want %q", url, err, want)
		}
	}
}

func TestSeconds(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0", 1999*time.Millisecond + 999*time.Microsecond: "1.999", 16 * time.Second: "16",
	} {
		if got := seconds(d); got != want {
			t.Errorf("%s: %s, want %s", d, got, want)
		}
	}
}

// The status says what an endpoint has heard, also when it does not end its answer.
func TestAnswersThatDoNotEnd(t *testing.T) {
	for _, event := range []string{eventStart, eventRenew, eventStop, eventTick} {
		for _, status := range []int{200, 500} {
			for name, handler := range taskrig.Endless(status) {
				t.Run(fmt.Sprint(event, " ", status, " ", name), func(t *testing.T) {
					t.Parallel()
					env, _ := taskrig.Env(t)
					err := Runner{Endpoint: endpoint.Endpoint{URL: taskrig.Serve(t,
						handler)}}.send(t.Context(), env, message{event: event})
					if (err == nil) != (status == 200) || err != nil && !strings.Contains(err.Error(), "status 500") {
						t.Errorf("%v", err)
					}
				})
			}
		}
	}
}
