package admin_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/internal/verbs"
	"github.com/shardctl/shardctl/pkg/api"
)

// description is openapi.json as this listener serves it.
type description struct {
	t        *testing.T
	compiler *jsonschema.Compiler
	Paths    map[string]map[string]struct {
		RequestBody struct {
			Content map[string]any `json:"content"`
		} `json:"requestBody"`
		Responses map[string]struct {
			Ref     string         `json:"$ref"`
			Content map[string]any `json:"content"`
		} `json:"responses"`
	} `json:"paths"`
}

func describe(t *testing.T, l *listener) *description {
	t.Helper()
	code, _, text := l.ask(http.MethodGet, "/openapi.json", "")
	d := &description{t: t, compiler: jsonschema.NewCompiler()}
	if err := json.Unmarshal([]byte(text), d); err != nil || code != http.StatusOK {
		t.Fatal(code, err)
	}
	raw, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := d.compiler.AddResource("openapi.json", raw); err != nil {
		t.Fatal(err)
	}
	return d
}

// fits checks a text against the schema at a place of the description.
func (d *description) fits(what, pointer, text string) {
	d.t.Helper()
	schema, err := d.compiler.Compile("openapi.json#" + pointer)
	if err != nil {
		d.t.Fatal(err)
	}
	var value any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		d.t.Errorf("%s: %v", what, err)
		return
	}
	if err := schema.Validate(value); err != nil {
		d.t.Errorf("%s: %s: %v", what, text, err)
	}
}

// answered checks that an answer is one of those described.
func (d *description) answered(path string, code int, text string) {
	d.t.Helper()
	what := fmt.Sprint(path, ": ", code)
	response, ok := d.Paths[path]["post"].Responses[fmt.Sprint(code)]
	if !ok {
		d.t.Errorf("%s is not described: %s", what, text)
		return
	}
	pointer := strings.TrimPrefix(response.Ref, "#")
	if pointer == "" {
		pointer = "/paths/" + strings.ReplaceAll(path, "/", "~1") + "/post/responses/" + fmt.Sprint(code)
	}
	media := "application~1json"
	if code >= 400 {
		media = "application~1problem+json"
	}
	d.fits(what, strings.NewReplacer("{", "%7B", "}", "%7D").Replace(pointer)+"/content/"+media+"/schema", text)
}

// What is described as too long a reason is what is refused: both count characters.
func TestReasonsAreBoundedAsDescribed(t *testing.T) {
	l := serve(t, false)
	d := describe(t, l)
	schema, err := d.compiler.Compile("openapi.json#/components/schemas/Change")
	if err != nil {
		t.Fatal(err)
	}
	for _, length := range []int{record.MaxAsked, record.MaxAsked + 1} {
		for _, character := range []string{"x", "ä", "😀"} {
			body, err := json.Marshal(map[string]any{"reason": strings.Repeat(character, length)})
			if err != nil {
				t.Fatal(err)
			}
			var value any
			if err := json.Unmarshal(body, &value); err != nil {
				t.Fatal(err)
			}
			described := schema.Validate(value) == nil
			code, _, text := l.ask(http.MethodPost, "/api/v1/instances/a/cordon", string(body))
			if taken := code == http.StatusOK; taken != described || taken != (length <= record.MaxAsked) {
				t.Errorf("%d times %s: described as fine: %v; %d %.200s", length, character, described, code, text)
			}
		}
	}
}

// posts are the paths that change something.
func posts() []string {
	var paths []string
	for _, route := range verbs.Routes() {
		paths = append(paths, route.Path)
	}
	slices.Sort(paths)
	return paths
}

func TestEveryChangeIsDescribed(t *testing.T) {
	d := describe(t, serve(t, false))
	var described []string
	for path, methods := range d.Paths {
		if _, ok := methods["post"]; ok {
			described = append(described, path)
		}
	}
	slices.Sort(described)
	if want := posts(); !slices.Equal(described, want) {
		t.Errorf("described %v\nserved    %v", described, want)
	}
}

// Any request may be refused for what has nothing to do with what it asks for.
func TestWhatAnyRequestMayBeAnsweredIsDescribed(t *testing.T) {
	for path, methods := range describe(t, serve(t, false)).Paths {
		for method, operation := range methods {
			for _, code := range []string{"405", "421", "500"} {
				if _, ok := operation.Responses[code]; !ok {
					t.Errorf("%s %s: %s is not described", method, path, code)
				}
			}
		}
	}
}

// What is answered to a change is as described: done, as a dry run, and refused in each way that there is.
func TestAnswersToChangesAreAsDescribed(t *testing.T) {
	fill := func(path string) (filled, body string) {
		name := map[bool]string{true: "topic-001", false: "topics"}[strings.Contains(path, "/tasks/")]
		if strings.Contains(path, "/instances/") {
			name = "a"
		}
		fields := map[string]any{"reason": "test"}
		if strings.HasSuffix(path, "/pin") || strings.HasSuffix(path, "/move") {
			fields["instance"] = "a"
		}
		if !strings.Contains(path, "{") {
			fields["selector"] = "team=core"
		}
		text, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		return strings.NewReplacer("{group}", "topics", "{name}", name).Replace(path), string(text)
	}
	full := api.ChangeResult{
		Changed: []string{"x"}, Unchanged: []string{"y"}, Refused: []api.Refusal{},
		Moves: []api.PlannedMove{{Key: "topics/topic-001", From: "a", To: "b", Reason: "Drain"}},
	}
	refused := full
	refused.Refused = []api.Refusal{{Name: "x", Reason: api.RefusedPaused, Message: "paused"}}
	for _, path := range posts() {
		l := serve(t, true)
		d := describe(t, l)
		filled, body := fill(path)
		schema := slices.Collect(maps.Keys(d.Paths[path]["post"].RequestBody.Content))
		if !slices.Equal(schema, []string{"application/json"}) {
			t.Errorf("%s takes %v", path, schema)
		}
		pointer := strings.NewReplacer("/", "~1", "{", "%7B", "}", "%7D").Replace(path)
		d.fits("body of "+path, "/paths/"+pointer+"/post/requestBody/content/application~1json/schema", body)
		ask := func(want int, body string, result api.ChangeResult, err error, headers ...string) {
			t.Helper()
			l.changer.mu.Lock()
			l.changer.result, l.changer.err = result, err
			l.changer.mu.Unlock()
			code, _, text := l.ask(http.MethodPost, filled, body, headers...)
			if code != want {
				t.Errorf("%s: %d %s, want %d", filled, code, text, want)
			}
			d.answered(path, code, text)
		}
		admins := bearer(adminToken)
		done := http.StatusOK
		if strings.HasSuffix(path, "/drain") {
			done = http.StatusAccepted
		}
		ask(done, body, full, nil, admins...)
		ask(http.StatusOK, strings.Replace(body, "{", `{"dryRun":true,`, 1), full, nil, admins...)
		ask(http.StatusBadRequest, `{"oops":1}`, full, nil, admins...)
		ask(http.StatusUnauthorized, body, full, nil)
		ask(http.StatusForbidden, body, full, nil, append(bearer(readToken), "Origin", l.url)...)
		ask(http.StatusRequestEntityTooLarge, `{"reason":"`+strings.Repeat("x", 1<<17)+`"}`, full, nil, admins...)
		ask(http.StatusUnsupportedMediaType, body, full, nil, append(admins, "Content-Type", "text/plain")...)
		ask(http.StatusServiceUnavailable, body, full, errUnreachable, admins...)
		ask(http.StatusInternalServerError, body, full, errors.New("it is so"), admins...)
		ask(http.StatusMisdirectedRequest, body, full, nil, append(admins, "Host", "evil.example")...)
		code, _, text := l.ask(http.MethodGet, filled, "", admins...)
		if code != http.StatusMethodNotAllowed {
			t.Errorf("GET %s: %d %s", filled, code, text)
		}
		d.answered(path, code, text)
		if strings.Contains(path, "{") {
			ask(http.StatusConflict, body, refused, nil, admins...)
		}
	}
}
