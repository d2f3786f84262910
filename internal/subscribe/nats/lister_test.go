package nats_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/shardctl/shardctl/internal/connect"
	"github.com/shardctl/shardctl/internal/decode"
	"github.com/shardctl/shardctl/internal/discover"
	"github.com/shardctl/shardctl/internal/subscribe/nats"
)

func TestStreamsAreListed(t *testing.T) {
	r := newRig(t)
	for _, name := range []string{"-orders-eu", "-orders-us", "-pay"} {
		if _, err := r.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: r.name + name}); err != nil {
			t.Fatal(err)
		}
	}
	internal := jetstream.StreamConfig{Name: "$" + r.name, Subjects: []string{r.name}}
	if _, err := r.js.CreateStream(t.Context(), internal); err != nil {
		t.Fatal(err)
	}
	env := discover.Env{Lookup: func(string) (string, bool) { return r.broker.Addr, true }}
	for pattern, want := range map[string]string{
		r.name + "-orders-*": "-orders-eu -orders-us", "/^" + r.name + "-/": "-orders-eu -orders-us -pay",
		r.name + "-nothing": "", "*" + r.name: "",
	} {
		l := nats.Lister{Servers: []string{"$(SERVER)"}, Streams: []string{pattern}}
		found, err := l.List(t.Context(), env)
		if err == nil {
			found, err = discover.Check(found)
		}
		var names []string
		for _, f := range found {
			names = append(names, strings.TrimPrefix(f.Name, r.name))
		}
		if got := strings.Join(names, " "); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", pattern, got, err, want)
		}
	}
}

// A server lists a thousand streams in one answer, and more in several.
func TestMoreStreamsThanOneAnswerHoldsAreListed(t *testing.T) {
	r := newRig(t)
	const n = 1_100
	for i := range n {
		config := jetstream.StreamConfig{
			Name: fmt.Sprintf("%s-%d", r.name, i), Subjects: []string{fmt.Sprintf("%s.%d", r.name, i)},
			Storage: jetstream.MemoryStorage,
		}
		if _, err := r.js.CreateStream(r.within(), config); err != nil {
			t.Fatal(err)
		}
	}
	l := nats.Lister{Servers: []string{r.broker.Addr}, Streams: []string{r.name + "-*"}}
	found, err := l.List(t.Context(), discover.Env{})
	if err == nil {
		_, err = discover.Check(found)
	}
	if err != nil || len(found) != n {
		t.Errorf("%d streams, %v; want %d", len(found), err, n)
	}
}

func TestListersFail(t *testing.T) {
	env := discover.Env{Lookup: func(string) (string, bool) { return "", false }}
	for want, l := range map[string]nats.Lister{
		"none of the servers answers": {Servers: []string{"127.0.0.1:1"}, Streams: []string{"*"}},
		"nats 127.0.0.1:1, streams":   {Servers: []string{"nats://u:hunter2@127.0.0.1:1"}, Streams: []string{"*"}},
		"nats.servers[0]":             {Servers: []string{"$(UNSET)"}, Streams: []string{"*"}},
		"nats.streams[0]":             {Servers: []string{"127.0.0.1:1"}, Streams: []string{"$(UNSET)"}},
	} {
		found, err := l.List(t.Context(), env)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v, %v; want %s", found, err, want)
		}
	}
	for field, l := range map[string]nats.Lister{
		"servers": {Streams: []string{"a"}},
		"streams": {Servers: []string{"a:1"}, Streams: []string{"/(/"}},
		"user": {
			Servers: []string{"a:1"}, Streams: []string{"a"},
			Login: nats.Login{Login: connect.Login{User: "u"}},
		},
	} {
		if wrong := l.Validate(); len(wrong) != 1 || strings.Join(wrong[0].Path, ".") != field {
			t.Errorf("%s: %v", field, wrong)
		}
	}
	shown := nats.Lister{
		Servers: []string{"a:1"}, Streams: []string{"a"}, Login: nats.Login{Login: connect.Login{
			User:     "u",
			Password: "hunter2",
		}},
	}.Print().(decode.Fields)
	if text := fmt.Sprint(shown); strings.Contains(text, "hunter2") || shown[1].Name != "streams" {
		t.Errorf("printed %s", text)
	}
}
