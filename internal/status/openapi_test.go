package status

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"

	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/pkg/api"
	_ "github.com/shardctl/shardctl/test/seeds" // the same cases for everybody
)

type operation struct {
	OperationID string `json:"operationId"`
	Parameters  []struct {
		Name, In string
	}
	RequestBody any            `json:"requestBody"`
	Responses   map[string]any `json:"responses"`
}

type openAPIDoc struct {
	OpenAPI    string                          `json:"openapi"`
	Paths      map[string]map[string]operation `json:"paths"`
	Components struct {
		Schemas map[string]struct {
			Pattern    string         `json:"pattern"`
			Properties map[string]any `json:"properties"`
		} `json:"schemas"`
	} `json:"components"`
}

func readOpenAPI(t *testing.T) openAPIDoc {
	t.Helper()
	h := granting(New(Config{Source: &snapshot.Board{}}), Access{Changes: ChangesOpen})
	return decode[openAPIDoc](t, get(t, h, "/openapi.json"))
}

// What is refused as a selector is not described as one, and the other way round.
func TestSelectorsAreDescribed(t *testing.T) {
	selector := readOpenAPI(t).Components.Schemas["Selector"]
	if selector.Pattern != snapshot.SelectorPattern {
		t.Errorf("described %s\nwant      %s", selector.Pattern, snapshot.SelectorPattern)
	}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(snapshot.SelectorPattern).Filter(func(s string) bool {
			return strings.Count(s, ",") < 50 // how many parts there may be, a pattern does not say
		}).Draw(t, "selector")
		if _, err := snapshot.ParseSelector(text); err != nil {
			t.Error(err)
		}
	})
}

// A listener that only reads describes no changes, and all else as the other one does.
func TestReadersAreShownWhatCanBeRead(t *testing.T) {
	all, reads := readOpenAPI(t), decode[openAPIDoc](t, get(t, New(Config{Source: &snapshot.Board{}}), "/openapi.json"))
	maps.DeleteFunc(
		all.Paths, func(_ string, methods map[string]operation) bool { return methods["get"].OperationID == "" },
	)
	if len(reads.Paths) == 0 || !reflect.DeepEqual(reads, all) {
		t.Errorf("described %v, want %v", slices.Sorted(maps.Keys(reads.Paths)), slices.Sorted(maps.Keys(all.Paths)))
	}
}

func TestEveryRouteIsDescribed(t *testing.T) {
	doc := readOpenAPI(t)
	if !strings.HasPrefix(doc.OpenAPI, "3.1.") {
		t.Errorf("version %s", doc.OpenAPI)
	}
	routes := declaredRoutes()
	var reads []string
	ids := map[string]bool{}
	for path, methods := range doc.Paths {
		op, read := methods["get"]
		if read {
			reads = append(reads, path)
		} else {
			op = methods["post"] // what changes; package admin compares these paths
		}
		if len(methods) != 1 || op.OperationID == "" || ids[op.OperationID] || op.Responses["200"] == nil ||
			read != (op.RequestBody == nil) {
			t.Errorf("%s: %+v", path, methods)
		}
		ids[op.OperationID] = true
		var inPath []string
		for _, p := range op.Parameters {
			if p.In == "path" {
				inPath = append(inPath, "{"+p.Name+"}")
			}
		}
		if strings.Count(path, "{") != len(inPath) ||
			slices.ContainsFunc(inPath, func(p string) bool { return !strings.Contains(path, p) }) {
			t.Errorf("%s: path parameters %v", path, inPath)
		}
	}
	if slices.Sort(reads); !slices.Equal(reads, routes) {
		t.Errorf("described %v\nserved    %v", reads, routes)
	}
}

// The body of a change is one type; which of its fields a request takes depends on the verb.
func TestBodiesHaveTheFieldsOfTheRequest(t *testing.T) {
	described := map[string]bool{}
	for name, schema := range readOpenAPI(t).Components.Schemas {
		if strings.HasSuffix(name, "Change") {
			for field := range schema.Properties {
				described[field] = true
			}
		}
	}
	fields, _ := new(schemas).fields(reflect.TypeFor[api.ChangeRequest](), "")
	var want []string
	for _, f := range fields {
		want = append(want, f.name)
	}
	slices.Sort(want)
	if got := slices.Sorted(maps.Keys(described)); !slices.Equal(got, want) {
		t.Errorf("described %v\nfields of the type %v", got, want)
	}
}

// What is answered must be as described, in types too.
func TestAnswersFitTheirSchemas(t *testing.T) {
	raw, err := jsonschema.UnmarshalJSON(strings.NewReader(string(openAPI)))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("openapi.json", raw); err != nil {
		t.Fatal(err)
	}
	store := &eventStore{}
	store.add("1")
	s := sample(3)
	s.Tasks.All()[0].Overrides = api.Overrides{
		{Kind: "pin", Scope: "task", Name: s.Tasks.All()[0].Key, To: "zone=z1", At: api.Time{Time: epoch}},
	}
	s.Instances[0].Overrides = api.Overrides{{Kind: "drain", Scope: "instance", Name: "a", By: "ann", Reason: "kernel"}}
	s.Overrides = []api.Override{s.Tasks.All()[0].Overrides[0], s.Instances[0].Overrides[0]}
	s.Overrides[1].Until = api.Millis(5)
	s.Overrides = append(s.Overrides, api.Override{Kind: "rebalance", Scope: "group", Name: "topics"})
	runs := fakeRuns{{Result: "Running"}, {Result: "Failed", EndedAt: api.Millis(5)}}
	h := New(Config{Source: boardWith(s), Events: store, Runs: runs})
	for path, name := range map[string]string{
		"/api/v1/status": "Status", "/api/v1/tasks": "TaskList", "/api/v1/groups": "GroupList",
		"/api/v1/events":         "EventList",
		"/api/v1/groups/topics?": "Stale", "/api/v1/instances/a?": "Stale",
		"/api/v1/tasks/topics/topic-0001?": "Stale",
		"/api/v1/instances":                "InstanceList", "/api/v1/locks": "LockList",
		"/api/v1/owners": "KeyOwnerList", "/api/v1/overrides": "OverrideList", "/api/v1/instances/a": "Instance",
		"/api/v1/groups/topics":                "Group",
		"/api/v1/whoami":                       "Caller",
		"/api/v1/tasks/topics/topic-0001/runs": "RunList",
		"/api/v1/tasks/topics/topic-0001":      "Task", "/nowhere": "Error", "/api/v1/tasks?limit=0": "Error",
	} {
		schema, err := compiler.Compile("openapi.json#/components/schemas/" + name)
		if err != nil {
			t.Fatal(err)
		}
		var answer any
		if err := json.Unmarshal(get(t, h, path).Body.Bytes(), &answer); err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(answer); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func declaredRoutes() []string {
	c := Config{Source: &snapshot.Board{}}.withDefaults()
	var paths []string
	for _, route := range newServer(c).routes(c) {
		paths = append(paths, strings.TrimSuffix(route.path, "{$}"))
	}
	slices.Sort(paths)
	return paths
}
