package status

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/internal/verbs"
	"github.com/shardctl/shardctl/pkg/api"
)

var writeOpenAPI = flag.Bool("update", false, "write openapi.json")

// openapi.json is what the routes, the changes and the types of package api make of it.
func TestOpenAPIIsGenerated(t *testing.T) {
	schemas := &schemas{comments: commentsOfAPI(t)}
	var want bytes.Buffer
	encoder := json.NewEncoder(&want)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	if err := encoder.Encode(description(schemas)); err != nil {
		t.Fatal(err)
	}
	if *writeOpenAPI {
		if err := os.WriteFile("openapi.json", want.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(want.Bytes(), openAPI) {
		t.Error("openapi.json is not what the program says: run go generate ./internal/status")
	}
}

// object is a JSON object with its fields in order.
type object []field

type field struct {
	name  string
	value any
}

// MarshalJSON implements [json.Marshaler].
func (o object) MarshalJSON() ([]byte, error) {
	all := []byte{'{'}
	for i, f := range o {
		if i > 0 {
			all = append(all, ',')
		}
		var value bytes.Buffer
		encoder := json.NewEncoder(&value)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(f.value); err != nil {
			return nil, err
		}
		all = append(append(all, strconv.Quote(f.name)+":"...), value.Bytes()...)
	}
	return append(all, '}'), nil
}

// with is the object with another field, unless the value is empty.
func (o object) with(name string, value any) object {
	if v := reflect.ValueOf(value); v.IsZero() || v.Kind() == reflect.Slice && v.Len() == 0 {
		return o
	}
	return append(o, field{name, value})
}

func ref(kind, name string) object { return object{{"$ref", "#/components/" + kind + "/" + name}} }

func described(schema object, description string) object {
	return schema.with("description", description)
}

func text(more ...field) object   { return append(object{{"type", "string"}}, more...) }
func number(more ...field) object { return append(object{{"type", "integer"}}, more...) }

func description(s *schemas) object {
	var paths object
	board := Config{Source: &snapshot.Board{}}.withDefaults()
	for _, r := range newServer(board).routes(board) {
		path := strings.TrimSuffix(r.path, "{$}")
		paths = append(paths, field{path, object{{"get", read(s, path, r)}}})
	}
	for _, r := range verbs.Routes() {
		paths = append(paths, field{r.Path, object{{"post", changed(s, r)}}})
	}
	s.add(api.Error{})
	return object{
		{"openapi", "3.1.0"},
		{"info", object{
			{"title", "shardctl"},
			{"version", "1"},
			{"description", strings.Join([]string{
				"What a cluster does, and changes to it.",
				"Every replica answers for the whole cluster.",
				`Absent texts are "", absent times null; no field is left out.`,
				"HEAD is answered wherever GET is.",
				"Changes (POST) are taken by the admin listener alone, which alone describes them.",
				"Over a loopback address a request under a name that is not the listener's is answered with 421.",
				"What tasks wrote (logs, output and errors of runs, lastError) is shown to those with a token where " +
					`admin.tokensFile is set; else it reads "` + Hidden + `".`,
				"Answers come in gzip to those who accept it, watches too.",
			}, " ")},
			{"license", object{{"name", "Apache-2.0"}, {"identifier", "Apache-2.0"}}},
		}},
		{"paths", paths},
		{"components", object{
			{"schemas", append(s.list, bodies()...)},
			{"responses", refusals()},
			{"securitySchemes", object{{"token", object{
				{"type", "http"},
				{"scheme", "bearer"},
				{"description", "A token of admin.tokensFile, where that is set."},
			}}}},
		}},
	}
}

// optional is a token that need not be given.
var optional = []object{{}, {{"token", []string{}}}}

// read describes a route.
func read(s *schemas, path string, r route) object {
	inPath := pathParameters(path)
	parameters := inPath
	for _, name := range r.params {
		parameters = append(parameters, queryParameter(r.id, name))
	}
	content := object{}
	ok := object{{"description", "OK"}}
	if media, isText := r.answer.(string); isText {
		content = append(content, field{media, object{{"schema", text()}}})
	} else {
		content = append(content, field{mediaJSON, object{{"schema", s.add(r.answer)}}})
	}
	all := strings.Join(r.params, " ")
	watched, paged := strings.HasSuffix(all, "watch"), strings.Contains(all, "continue")
	if watched {
		content = append(content, field{"text/event-stream", object{{"schema", ref("schemas", "WatchEvent")}}})
	}
	ok = append(ok, field{"content", content})
	switch {
	case watched && paged:
		ok = append(ok, field{"headers", headers("ETag", "Of this answer: what If-None-Match takes.")})
	case r.id == "logs":
		ok = append(ok, field{"headers", logHeaders()})
	}
	answers := object{{"200", ok}}
	may := func(code string, condition bool, name string) {
		if condition {
			answers = append(answers, field{code, ref("responses", name)})
		}
	}
	api := strings.HasPrefix(path, "/api/")
	if watched && paged {
		answers = append(answers, field{"304", object{
			{"description", "The reader has it already, as If-None-Match says."},
		}})
	}
	may("400", len(r.params) > 0 || api, "WrongParameter")
	may("401", api, "Unauthorized")
	may("403", r.forbidden, "Forbidden")
	may("404", len(inPath) > 0, "NotFound")
	may("405", true, "OnlyReads")
	may("410", paged, "Expired")
	may("421", true, "Misdirected")
	may("429", !r.unlimited || r.scrapes, "TooManyFailures")
	may("500", true, "Internal")
	may("503", true, cmp.Or(r.unavailable, "NotReady"))
	operation := object{{"operationId", r.id}, {"summary", r.summary}}.with("parameters", parameters)
	operation = append(operation, field{"responses", answers})
	if api {
		operation = append(operation, field{"security", optional})
	}
	return operation
}

// changed describes a route of changes.
func changed(s *schemas, r verbs.Route) object {
	kind := map[record.Scope]string{
		record.ScopeTask: "Task", record.ScopeGroup: "Group", record.ScopeInstance: "Instance",
	}[r.Scope]
	unchanged := object{{api.UnchangedHeader, object{
		{"description", "true where all was as asked already: nothing was written."},
		{"schema", text(field{"enum", []string{"true"}})},
	}}}
	answer := func(description string, schema object) object {
		a := object{{"description", description}}
		if !r.Many {
			a = append(a, field{"headers", unchanged})
		}
		return append(a, field{"content", object{{mediaJSON, object{{"schema", schema}}}}})
	}
	result := s.add(api.ChangeResult{})
	var answers object
	switch {
	case r.Many:
		kind = "Tasks"
		answers = object{{"200", answer("What became of it.", result)}}
	case r.Later:
		answers = object{
			{"200", answer("Of a dry run: what would move.", result)},
			{"202", answer("The object as it is now; the drain goes on.", ref("schemas", kind))},
		}
	default:
		either := object{{"anyOf", []object{ref("schemas", kind), result}}}
		answers = object{{"200", answer("The object as it is now; of a dry run, what would move.", either)}}
	}
	for _, of := range []struct{ code, name string }{
		{"400", "Invalid"},
		{"401", "Unauthorized"},
		{"403", "Forbidden"},
		{"404", "NotFound"},
		{"405", "NotPosted"},
		{"409", "Refused"},
		{"413", "TooLarge"},
		{"415", "UnsupportedMedia"},
		{"421", "Misdirected"},
		{"429", "TooManyFailures"},
		{"500", "Internal"},
		{"503", "Unavailable"},
	} {
		if of.name != "Refused" || !r.Many {
			answers = append(answers, field{of.code, ref("responses", of.name)})
		}
	}
	operation := object{{"operationId", string(r.Name) + kind}, {"summary", r.Summary}}
	return append(operation.with("parameters", pathParameters(r.Path)),
		field{"requestBody", object{
			{"required", true},
			{"content", object{{mediaJSON, object{{"schema", ref("schemas", bodyOf(r))}}}}},
		}},
		field{"responses", answers},
		field{"security", optional},
	)
}

// headers describes headers that hold a text, given as names and descriptions.
func headers(pairs ...string) (all object) {
	for i := 0; i < len(pairs); i += 2 {
		all = append(all, field{pairs[i], object{}.with("description", pairs[i+1]).with("schema", text())})
	}
	return all
}

func logHeaders() object {
	token := object{{"description", "The fencing token of the newest start of the task there."}, {"schema", number()}}
	return append(headers(
		api.LogPositionHeader, "Up to where the output goes: what after takes.",
		api.LogInstanceHeader, "The instance on which the task wrote it.",
		api.LogEndedHeader, "true when that instance did not hold the task any more; else absent.",
	), field{api.LogTokenHeader, token})
}

// refusals are the answers that hold a problem.
func refusals() (all object) {
	for _, r := range []struct{ name, description, header string }{
		{"WrongParameter", "A parameter is wrong.", ""},
		{"Invalid", "The body is malformed, or a field of it.", ""},
		{"Unauthorized", "A token is needed, or it is not known.", "WWW-Authenticate"},
		{"Forbidden", "The token's role is too low, the request comes from another origin, " +
			"or the listener shows no output.", ""},
		{"NotFound", "There is none.", ""},
		{"OnlyReads", "Only reads.", "Allow"},
		{"NotPosted", "Changes take POST alone.", "Allow"},
		{"Refused", "It cannot be; the reason says why.", ""},
		{"Expired", "The continue token is too old; begin again.", ""},
		{"TooLarge", "The body has more than 64 KiB.", ""},
		{"UnsupportedMedia", "The body is not application/json.", ""},
		{"Misdirected", "It came under a name that is not the listener's.", ""},
		{"TooManyFailures", "Too much comes from this address: wrong tokens (TooManyFailures), " +
			"requests at once (TooManyRequests) or watches (TooManyWatchers); or the store was read as often as it is for " +
			"strangers (TooManyRequests).", "Retry-After"},
		{"Internal", "It could not be answered; the log says why. A change may be written in part.", ""},
		{"Unavailable", "The store does not answer.", "Retry-After"},
		{"TooManyRequests", "As many requests are answered at once as may be; try again.", "Retry-After"},
		{"NotKnownYet", "Not known yet; try again.", "Retry-After"},
		{
			"NotAlive", "A loop of the replica has not turned for the length of the lease, and for 30 s at least.",
			"Retry-After",
		},
		{"NotReady", "Not known yet, or as many requests are answered at once as may be; try again.", "Retry-After"},
	} {
		answer := object{
			{"description", r.description},
			{"content", object{{"application/problem+json", object{{"schema", ref("schemas", "Error")}}}}},
		}
		switch r.header {
		case "":
		case "Retry-After":
			answer = append(answer, field{"headers", object{{r.header, object{{"schema", number()}}}}})
		default:
			answer = append(answer, field{"headers", headers(r.header, "")})
		}
		all = append(all, field{r.name, answer})
	}
	return all
}

var inBraces = regexp.MustCompile(`\{(\w+)\}`)

func pathParameters(path string) (all []object) {
	for _, found := range inBraces.FindAllStringSubmatch(path, -1) {
		all = append(all, object{{"name", found[1]}, {"in", "path"}, {"required", true}, {"schema", text()}})
	}
	return all
}

// queryParameter describes a parameter of an operation, as it is there or everywhere.
func queryParameter(id, name string) object {
	noControl := field{"pattern", `^[^\u0000-\u001f\u007f-\u009f]*$`}
	limited := text(field{"maxLength", maxLength}, noControl)
	oneOf := func(words []string) object {
		word := "(?:" + strings.Join(words, "|") + ")"
		return text(field{"pattern", "^(?:" + word + "(?:," + word + ")*)?$"})
	}
	type parameter struct {
		description string
		schema      object
	}
	count := func(most, normally int) object {
		return number(field{"minimum", 1}, field{"maximum", most}, field{"default", normally})
	}
	boolean := object{{"type", "boolean"}}
	known := map[string]parameter{
		"group":    {"Only of this group. May stand several times.", limited},
		"instance": {"Only of this instance. May stand several times.", limited},
		"q":        {"Only where this text occurs.", limited},
		"selector": {
			"Only with these labels: k=v,k!=v,k in (a,b),k notin (a,b),k,!k", ref("schemas", "Selector"),
		},
		"name": {
			"Only of this name, GROUP/NAME of a task, or of those that match this pattern. May stand several times.",
			object{{"allOf", []object{ref("schemas", "Pattern"), limited}}},
		},
		"kind":     {"Only of this kind; several by commas.", oneOf(names(api.LockKinds()))},
		"task":     {"Only of this task, GROUP/NAME.", limited},
		"since":    {"Only since this moment, RFC 3339, or for so long, as 10m.", text()},
		"for":      {"Only the owner of the slot of this key. It goes with one group, which has slots.", limited},
		"limit":    {"At most so many.", count(api.MaxLimit, api.DefaultLimit)},
		"continue": {"Where the page before ended.", text(field{"maxLength", maxToken})},
		"watch":    {"Go on with server-sent events.", object{{"type", "boolean"}, {"default", false}}},

		"tasks state":     {"Only in this state; several by commas.", oneOf(names(api.TaskStates()))},
		"instances state": {"Only in this state; several by commas.", oneOf(names(api.InstanceStates()))},

		"overrides instance": {"Only about this instance, or to it. May stand several times.", limited},

		"page view": {
			"plain: tables of everything, without scripts. The other parameters keep what the live page shows; " +
				"of the plain one, q, state, limit and continue count.", text(),
		},
		"page q":        {"Only tasks with these words.", limited},
		"page state":    {"Only tasks in this state.", text()},
		"page limit":    {"At most so many tasks, and problems, and instances.", count(api.MaxLimit, api.DefaultLimit)},
		"page continue": {"Where the page of tasks before ended.", text(field{"maxLength", maxToken})},

		"logs tail": {"At most so many lines.", count(maxTail, maxTail)},
		"logs after": {
			"Only lines written after this position, which an earlier answer gave in " + api.LogPositionHeader +
				". One of another owner is passed over.",
			text(field{"maxLength", maxPosition}, noControl),
		},
		"logs instance":   {"What it wrote on this instance, also before it moved.", limited},
		"logs previous":   {"Only lines of the run before the newest one on that instance.", boolean},
		"logs timestamps": {"Each line begins with its time (RFC 3339) and a space.", boolean},
	}
	p, ok := known[id+" "+name]
	if !ok {
		p, ok = known[name]
	}
	if !ok {
		panic(fmt.Sprintf("%s: parameter %s is not described", id, name))
	}
	return object{{"name", name}, {"in", "query"}, {"description", p.description}, {"schema", p.schema}}
}
