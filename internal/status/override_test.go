package status

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/pkg/api"
)

func TestOverridesAreSelected(t *testing.T) {
	s := sample(3)
	s.Tasks[1].Labels = api.Labels{"team": "core"}
	s.Overrides = []api.Override{
		{Kind: "pin", Scope: "task", Name: s.Tasks[1].Key, To: "a", By: "ann"},
		{Kind: "pause", Scope: "group", Name: "topics", Reason: "a flood"},
		{Kind: "pause", Scope: "task", Name: "gone/task", By: "bob"},
		{Kind: "drain", Scope: "instance", Name: "a"},
		{Kind: "cordon", Scope: "instance", Name: "b"},
	}
	s.Sort()
	h := New(Config{Source: boardWith(s)})
	for query, want := range map[string]string{
		"":                         "cordon b, drain a, pause topics, pause gone/task, pin " + s.Tasks[1].Key,
		"group=topics":             "pause topics, pin " + s.Tasks[1].Key,
		"group=gone":               "pause gone/task",
		"instance=a":               "drain a, pin " + s.Tasks[1].Key,
		"instance=a&group=topics":  "pin " + s.Tasks[1].Key,
		"selector=team%3Dcore":     "pin " + s.Tasks[1].Key,
		"q=FLOOD":                  "pause topics",
		"q=bob":                    "pause gone/task",
		"group=none":               "",
		"instance=b&selector=team": "",
	} {
		var list api.List[api.Override]
		if err := json.Unmarshal(get(t, h, "/api/v1/overrides?"+query).Body.Bytes(), &list); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, o := range list.Items {
			got = append(got, o.Kind+" "+o.Name)
		}
		if text := strings.Join(got, ", "); text != want {
			t.Errorf("%q: %s, want %s", query, text, want)
		}
	}
	var first api.List[api.Override]
	if err := json.Unmarshal(get(t, h, "/api/v1/overrides?limit=2").Body.Bytes(), &first); err != nil {
		t.Fatal(err)
	}
	var second api.List[api.Override]
	rest := get(t, h, "/api/v1/overrides?limit=5&continue="+url.QueryEscape(first.Continue)).Body.Bytes()
	if err := json.Unmarshal(rest, &second); err != nil || len(first.Items) != 2 || len(second.Items) != 3 ||
		second.Items[0].Name != "topics" || second.Continue != "" {
		t.Errorf("%+v and then %+v, %v", first, second, err)
	}
}
