//go:build unix

package listers_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/shardctl/shardctl/internal/connect"
	"github.com/shardctl/shardctl/internal/decode"
	"github.com/shardctl/shardctl/internal/discover"
	"github.com/shardctl/shardctl/internal/discover/listers"
	"github.com/shardctl/shardctl/internal/web"
	"github.com/shardctl/shardctl/test/suites"
	"github.com/shardctl/shardctl/test/testbroker"
	"github.com/shardctl/shardctl/test/testprocess"
)

func TestMain(m *testing.M) { os.Exit(testprocess.Main(m)) }

var env = discover.Env{Lookup: func(name string) (string, bool) {
	return map[string]string{"SECRET": "guest"}[name], name == "SECRET"
}}

func TestQueuesOfARealBrokerAreListed(t *testing.T) {
	suites.NeedWhole(t, suites.Brokers, "a real broker")
	port := freePort(t)
	broker := testbroker.RabbitMQ(t, "management.tcp.ip = 127.0.0.1", "management.tcp.port = "+port)
	declare(t, broker)
	l := &listers.AMQP{
		Login:      connect.Login{User: "guest", Password: "$(SECRET)"},
		Management: "http://127.0.0.1:" + port, Queues: []string{"orders*"},
	}
	const want = "orders us, orders/eu"
	if got := listed(t, l); got != want {
		t.Errorf("queues are %s, want %s", got, want)
	}
	streams := &listers.AMQP{
		Login:      connect.Login{User: l.User, Password: l.Password},
		Management: l.Management, Queues: l.Queues, Type: listers.TypeStream,
	}
	if got := listed(t, streams); got != "orders-log" {
		t.Errorf("streams are %s", got)
	}
	for words, wrong := range map[string]*listers.AMQP{
		"check amqp.user": {
			Management: l.Management, Queues: l.Queues,
			Login: connect.Login{User: "guest", Password: "hunter2"},
		},
		"no such virtual host": {
			Management: l.Management, Queues: l.Queues, VHost: "no",
			Login: connect.Login{User: "guest", Password: "guest"},
		},
		"amqp.management must be": {
			Management: l.Management + "/api/overview?", Queues: l.Queues,
			Login: connect.Login{User: "guest", Password: "guest"},
		},
		"malformed HTTP response":  {Management: "http://" + broker.Addr, Queues: l.Queues},
		"amqp.user and its passwo": {Management: l.Management, Queues: l.Queues},
	} {
		if found, err := wrong.List(t.Context(), env); err == nil || !strings.Contains(err.Error(), words) ||
			strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v, %v; want %s", found, err, words)
		}
	}

	// What a broker lists while it starts is everything, or an error.
	broker.Kill()
	if found, err := l.List(t.Context(), env); err == nil {
		t.Errorf("a broker that is down lists %v", found)
	}
	ctx, started := context.WithCancel(t.Context())
	parts := make(chan string, 1)
	go func() {
		defer close(parts)
		for ctx.Err() == nil {
			if found, err := l.List(ctx, env); err == nil && names(found) != want {
				parts <- names(found)
				return
			}
		}
	}()
	broker.Start()
	if got := listed(t, l); got != want {
		t.Errorf("after a restart queues are %s, want %s", got, want)
	}
	started()
	for part := range parts {
		t.Errorf("while the broker starts it lists %q", part)
	}
}

// declare makes queues that match orders* and others, and one exclusive queue, which ends with the test.
func declare(t *testing.T, broker *testbroker.Broker) {
	t.Helper()
	conn, err := amqp091.Dial("amqp://guest:guest@" + broker.Addr + "/")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // the broker is killed before
	channel, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	for name, kind := range map[string]string{
		"orders/eu": "classic", "orders us": "quorum", "orders-log": "stream", "pay": "classic", "orders-mine": "",
	} {
		args := amqp091.Table{"x-queue-type": kind}
		if kind == "" {
			args = nil
		}
		if _, err := channel.QueueDeclare(name, kind != "", false, kind == "", false, args); err != nil {
			t.Fatal(err)
		}
	}
}

// listed waits for a list: the plugin begins to serve after the broker.
func listed(t *testing.T, l *listers.AMQP) string {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		found, err := l.List(t.Context(), env)
		if err == nil {
			found, err = discover.Check(found)
		}
		if err == nil {
			return names(found)
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func names(found []discover.Found) string {
	all := make([]string, len(found))
	for i, f := range found {
		all[i] = f.Name
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// Whatever is not a list of queues is an error, and never an empty list.
func TestWrongAnswersOfTheManagementAPI(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch base, _, _ := strings.Cut(r.URL.Path[1:], "/"); base {
		case "html":
			_, _ = w.Write([]byte("<html>"))
		case "null":
			_, _ = w.Write([]byte("null"))
		case "down":
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			if r.URL.EscapedPath() != "/api/queues/%2F" {
				w.WriteHeader(http.StatusNotFound)
				return
			}
			_, _ = w.Write([]byte("[]"))
		}
	}))
	defer server.Close()
	for base, want := range map[string]string{
		"/html": "is not a JSON list of queues", "/null": "is not a JSON list of queues", "/down": "status 503",
		"/other": "management plugin",
	} {
		l := &listers.AMQP{Management: server.URL + base, Queues: []string{"*"}}
		if found, err := l.List(t.Context(), env); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v; want %s", base, found, err, want)
		}
	}
	l := &listers.AMQP{Management: server.URL + "/", Queues: []string{"*"}}
	if found, err := l.List(t.Context(), env); err != nil || len(found) != 0 {
		t.Errorf("an empty list is %v, %v", found, err)
	}
	for want, l := range map[string]*listers.AMQP{
		"connection refused": {Management: "http://u:hunter2@127.0.0.1:1", Queues: []string{"*"}},
		"amqp.queues[0]":     {Management: server.URL, Queues: []string{"$(UNSET)"}},
		"amqp.vhost":         {Management: server.URL, Queues: []string{"*"}, VHost: "$(UNSET)"},
		"amqp.passwordFile": {
			Management: server.URL, Queues: []string{"*"},
			Login: connect.Login{PasswordFile: "/nowhere"},
		},
		"tls.caFile": {Management: server.URL, Queues: []string{"*"}, CAFile: filepath.Join(t.TempDir(), "none")},
	} {
		if _, err := l.List(t.Context(), env); err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestAMQPIsValidated(t *testing.T) {
	for want, l := range map[string]*listers.AMQP{
		"": {
			Management: "https://a:15671", Queues: []string{"*"},
			Login: connect.Login{User: "u", PasswordFile: "p"},
		},
		"management": {Queues: []string{"*"}},
		"queues":     {Management: "http://a", Queues: []string{"/(/"}},
		"type":       {Management: "http://a", Queues: []string{"*"}, Type: "classic"},
		"password":   {Management: "http://a", Queues: []string{"*"}, Login: connect.Login{Password: "p"}},
		"passwordFile": {Management: "http://a", Queues: []string{"*"}, Login: connect.Login{
			User:     "u",
			Password: "p", PasswordFile: "f",
		}},
	} {
		var fields []string
		for _, wrong := range l.Validate() {
			fields = append(fields, strings.Join(wrong.Path, "."))
		}
		if got := strings.Join(fields, " "); got != want {
			t.Errorf("%+v: %s, want %s", l.Queues, got, want)
		}
	}
	l := &listers.AMQP{
		Login:      connect.Login{User: "u", Password: "hunter2"},
		Management: "http://u:hunter2@a", Queues: []string{"*"},
	}
	if text := fmt.Sprint(l.Print().(decode.Fields)); strings.Contains(text, "hunter2") {
		t.Errorf("printed %s", text)
	}
}

func freePort(t *testing.T) string {
	t.Helper()
	ports, err := web.FreePorts(t.Context(), "127.0.0.1", 1)
	if err != nil {
		t.Fatal(err)
	}
	return strconv.Itoa(ports[0])
}
