package taskrun_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/internal/variables"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/tasks"
	"github.com/shardctl/shardctl/test/fakehold"
)

// Whatever is in the identity of a task, its variables have: one that is listed and gets no value is empty here.
func TestEachOwnVariableHasAValue(t *testing.T) {
	env := taskrun.Env{
		Lease: fakehold.New(elect.NewKey("g", "n")), Host: taskrun.Host{Instance: "a"},
		Start: tasks.Start{Token: 7, ScheduledAt: time.Unix(0, 0)},
	}
	fill(reflect.ValueOf(&env.Identity).Elem())
	own := env.Own()
	for _, v := range variables.All() {
		if own[v.Name] == "" {
			t.Errorf("%s has no value: is it set in Env.Own?", v.Name)
		}
	}
}

// fill sets all texts of a struct.
func fill(of reflect.Value) {
	for _, f := range of.Fields() {
		switch f.Kind() {
		case reflect.String:
			f.SetString("x")
		case reflect.Struct:
			fill(f)
		default:
		}
	}
}

// What was found is one part of a URL, whatever its name is.
func TestDiscoveredNamesInURLs(t *testing.T) {
	env := taskrun.Env{
		Lease: fakehold.New(elect.NewKey("g", "n")),
		Host:  taskrun.Host{Environ: func() []string { return []string{"HOST=http://far.example/in?a=b&"} }},
	}
	env.Discovered = tasks.Discovered{Name: "a/../b c?x=1&y#z@é", Partition: "3"}
	const escaped = "a%2F..%2Fb%20c%3Fx%3D1%26y%23z%40%C3%A9"
	for _, test := range []struct{ field, text, want string }{
		{
			"http.url", "http://far.example/$(DISCOVERED_NAME)/$(DISCOVERED_PARTITION)",
			"http://far.example/" + escaped + "/3",
		},
		{"http.url", "$(HOST)of=$(DISCOVERED_NAME)", "http://far.example/in?a=b&of=" + escaped},
		{"amqp.url", "amqp://far.example/$(DISCOVERED_NAME)", "amqp://far.example/" + escaped},
		{"http.url", "$(DISCOVERED_NAME)", env.Discovered.Name}, // it is the URL
		{"http.headers.Of", "of $(DISCOVERED_NAME)", "of " + env.Discovered.Name},
	} {
		if got, err := env.Expand(test.field, test.text); err != nil || got != test.want {
			t.Errorf("%s: %s is %q, %v, want %q", test.field, test.text, got, err, test.want)
		}
	}
	env.Discovered = tasks.Discovered{}
	if got, err := env.Expand("http.url", "http://far.example/$(DISCOVERED_NAME)"); err == nil {
		t.Errorf("of a task that was not discovered: %q", got)
	}
}
