package cloudevents

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/shardctl/shardctl/internal/endpoint"
	"github.com/shardctl/shardctl/internal/subscribe"
	"github.com/shardctl/shardctl/internal/subscribe/internal/flow"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/test/taskrig"
)

// A refusal is of all messages of a request, unless the answer names messages.
func TestAnswers(t *testing.T) {
	long := strings.Repeat("x", 1000)
	for name, test := range map[string]struct {
		status int
		body   string
		want   [2]string // of each message, what the error holds; empty: success
	}{
		"200": {200, "thanks", [2]string{}},
		"204": {204, "", [2]string{}},
		"302": {302, "", [2]string{"302 Found", "302 Found"}},
		"409": {
			409, "a newer\nrun \x00has\xff\twritten " + long, [2]string{"409 Conflict: a newer run has written xx", "409"},
		},
		"500":            {500, "", [2]string{"answered 500 Internal Server Error", "500"}},
		"207":            {207, `{"failed": {"b": "no such customer"}}`, [2]string{"", "failed: no such customer"}},
		"207 all well":   {207, `{"failed": {}}`, [2]string{}},
		"207 without":    {207, `{}`, [2]string{"failed is not there", "failed is not there"}},
		"207 no JSON":    {207, `oops`, [2]string{`must be {"failed"`, "invalid character"}},
		"207 other id":   {207, `{"failed": {"c": "x"}}`, [2]string{`the id "c"`, `the id "c"`}},
		"207 no strings": {207, `{"failed": {"a": 1}}`, [2]string{"cannot unmarshal", "cannot unmarshal"}},
		"207 long":       {207, `{"failed": {"b": "` + strings.Repeat("x", maxFailed) + `"}}`, [2]string{"longer", "longer"}},
	} {
		t.Run(name, func(t *testing.T) {
			address, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", "/other")
				w.WriteHeader(test.status)
				_, _ = io.WriteString(w, test.body)
			})
			r := open(t, Sink{Endpoint: endpoint.Endpoint{URL: address}, BatchSize: 2})
			for i, err := range deliver(t, r, delivery("a", "1"), delivery("b", "2")) {
				switch want := test.want[i]; {
				case (want == "") != (err == nil):
					t.Errorf("message %d: %v, want %q", i, err, want)
				case err != nil && (!strings.Contains(err.Error(), want) || len(err.Error()) > 400 ||
					strings.ContainsAny(err.Error(), "\n\x00") || !utf8.ValidString(err.Error())):
					t.Errorf("message %d: %q, want %q", i, err, want)
				}
			}
		})
	}
}

// follows is what a flow does after a delivery has ended with err: it makes a dead letter, or waits so long.
func follows(t *testing.T, err error) (letter bool, wait time.Duration) {
	t.Helper()
	f := flow.New[string](flow.Rules{
		InFlight: 1, Batch: 1, DeadLetters: true, MaxDelay: 24 * time.Hour,
		Delay: func(int) time.Duration { return time.Nanosecond },
	})
	f.Received("a", "p", nil, flow.Past{})
	now := time.Now()
	works, _ := f.Next(now)
	f.Finished(works[0], []error{err}, now)
	works, wake := f.Next(now)
	return len(works) == 1 && works[0].DeadLetter, wake.Sub(now)
}

// An answer that is about the message makes it a dead letter. One that is about the moment, or about who has sent it,
// does not, and Retry-After is waited for.
func TestAnswersThatRejectTheMessage(t *testing.T) {
	date := time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)
	for name, test := range map[string]struct {
		status          int
		body, after     string
		letter          bool
		least, lessThan time.Duration // how long it waits
	}{
		"400":              {400, "no JSON", "", true, 0, 0},
		"413":              {413, "", "", true, 0, 0},
		"422":              {422, "", "", true, 0, 0},
		"422, later":       {422, "", "7", false, 7 * time.Second, 8 * time.Second},
		"401":              {401, "", "", false, 0, time.Second},
		"403":              {403, "", "", false, 0, time.Second},
		"404":              {404, "", "", false, 0, time.Second},
		"408":              {408, "", "", false, 0, time.Second},
		"409":              {409, "another owner", "", false, 0, time.Second},
		"425":              {425, "", "", false, 0, time.Second},
		"429":              {429, "", "60", false, time.Minute, 61 * time.Second},
		"500":              {500, "", "", false, 0, time.Second},
		"503 until":        {503, "", date, false, 50 * time.Minute, 61 * time.Minute},
		"503 odd":          {503, "", "soon", false, 0, time.Second},
		"503 negative":     {503, "", "-5", false, 0, time.Second},
		"500 dead":         {500, `{"dead": true, "title": "never"}`, "", true, 0, 0},
		"429 dead":         {429, `{"dead": true}`, "60", true, 0, 0},
		"500 alive":        {500, `{"dead": false}`, "", false, 0, time.Second},
		"207 failed":       {207, `{"failed": {"a": "no such customer"}}`, "", false, 0, time.Second},
		"207 failed, dead": {207, `{"failed": {"a": "no such customer"}, "dead": true}`, "", true, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			address, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				if test.after != "" {
					w.Header().Set("Retry-After", test.after)
				}
				w.WriteHeader(test.status)
				_, _ = io.WriteString(w, test.body)
			})
			err := deliver(t, open(t, Sink{Endpoint: endpoint.Endpoint{URL: address}}), delivery("a", "1"))[0]
			if err == nil || !strings.Contains(err.Error(), fmt.Sprint(test.status)) {
				t.Errorf("%v", err)
			}
			letter, wait := follows(t, err)
			if letter != test.letter || !letter && (wait < test.least || wait >= test.lessThan) {
				t.Errorf("dead letter %v, waits %s; want %v, at least %s", letter, wait, test.letter, test.least)
			}
		})
	}
}

func TestReceiversThatDoNotAnswer(t *testing.T) {
	release := make(chan struct{})
	hang := func(http.ResponseWriter, *http.Request) { <-release }
	hung, _ := serve(t, hang)
	t.Cleanup(func() { close(release) }) // before the server is closed
	closing, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
			_ = conn.Close()
		}
	})
	half, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		w.WriteHeader(http.StatusMultiStatus)
		_, _ = io.WriteString(w, `{"failed"`)
	})
	for name, test := range map[string]struct{ url, want string }{
		"hangs":  {hung, "no answer within the timeout of 100ms"},
		"closes": {closing, "closed the connection before it had answered"},
		"half":   {half, "closed the connection before it had answered"},
		"absent": {"http://127.0.0.1:1", "connection refused"},
	} {
		r := open(t, Sink{Endpoint: endpoint.Endpoint{URL: test.url}, Timeout: 100 * time.Millisecond})
		if test.want != "" && name != "hangs" {
			r = open(t, Sink{Endpoint: endpoint.Endpoint{URL: test.url}})
		}
		if err := deliver(t, r, delivery("a", "1"))[0]; err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %s", name, err, test.want)
		}
	}
	r := open(t, Sink{Endpoint: endpoint.Endpoint{URL: hung}, Timeout: time.Hour})
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(50*time.Millisecond, func() { cancel(elect.ErrLeaseLost) })
	if errs := r.Deliver(ctx, []subscribe.Delivery{delivery("a", "1")}); !errors.Is(errs[0], elect.ErrLeaseLost) {
		t.Errorf("after the lease was lost: %v", errs[0])
	}
}

// The status says how a delivery ended, also when the receiver does not end its answer.
func TestAnswersThatDoNotEnd(t *testing.T) {
	for _, status := range []int{200, 503} {
		for name, handler := range taskrig.Endless(status) {
			t.Run(fmt.Sprint(status, " ", name), func(t *testing.T) {
				t.Parallel()
				r := open(t, Sink{Endpoint: endpoint.Endpoint{URL: taskrig.Serve(t, handler)}, Timeout: time.Hour})
				err := deliver(t, r, delivery("a", "1"))[0]
				if (err == nil) != (status < 300) || err != nil && !strings.Contains(err.Error(), fmt.Sprint(status)) {
					t.Errorf("%v", err)
				}
			})
		}
	}
}
