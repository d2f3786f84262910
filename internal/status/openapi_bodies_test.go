package status

import (
	"slices"

	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/internal/verbs"
)

// bodyOf names the schema of a body: which fields of it a request takes depends on the verb.
func bodyOf(r verbs.Route) string {
	name := "Change"
	switch {
	case r.Target == verbs.ToPlace:
		name = "PinChange"
	case r.Target == verbs.ToInstance:
		name = "MoveChange"
	case r.Lasts():
		name = "StandingChange"
	}
	if r.Many {
		return "Selected" + name
	}
	return name
}

// bodies are the schemas of requests, and those of texts that they hold.
func bodies() (all object) {
	asked := func(description string) object {
		return text(field{"maxLength", record.MaxAsked}, field{"description", description}, noZero)
	}
	always := object{
		{"reason", asked("Why, for people.")},
		{"by", asked("Who asks, where no token says so.")},
		{"dryRun", described(object{{"type", "boolean"}}, "Change nothing, and say what would move.")},
		{"id", asked("The same request sent twice has one effect.")},
	}
	lasting := field{"for", text(field{"pattern", `^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`}, field{
		"description", "End by itself after this, from 1s to 8760h, such as 90s or 1h30m; " +
			"without it: when it is taken back.",
	})}
	target := object{{"minLength", 1}, {"maxLength", record.MaxAsked}}
	selection := object{
		{"group", described(text(), "Only of this group; names in tasks are then without it.")},
		{"tasks", described(object{{"type", "array"}, {"items", ref("schemas", "Pattern")}},
			"Names or patterns with *, ? and [a-z]; GROUP/NAME without group. Any of them.")},
		{"selector", ref("schemas", "Selector")},
	}
	for _, body := range []struct {
		name     string
		fields   object
		required []string
	}{
		{"Change", nil, nil},
		{"StandingChange", object{lasting}, nil},
		{"MoveChange", object{
			{"instance", append(described(append(text(), target...), "Where to."), noZero)},
		}, []string{"instance"}},
		{"PinChange", object{
			lasting,
			{"instance", described(append(ref("schemas", "Pattern"), target...),
				"An instance, a pattern such as web-*, or zone=ZONE.")},
			{"strict", described(object{{"type", "boolean"}}, "Rather unassigned than elsewhere.")},
		}, []string{"instance"}},
	} {
		fields := slices.Concat(always, body.fields)
		one := object{{"type", "object"}, {"properties", fields}, {"additionalProperties", false}}
		all = append(all, field{body.name, one.with("required", body.required)})
		many := object{{"type", "object"}, {"properties", slices.Concat(fields, selection)}, {"additionalProperties", false}}
		many = described(many, "One of group, tasks and selector is needed. Conditions add up.").
			with("required", body.required)
		all = append(all, field{"Selected" + body.name, append(many, field{"anyOf", []object{
			given("group", "minLength", 1), given("tasks", "minItems", 1), given("selector", "pattern", `[^ \t]`),
		}})})
	}
	return append(all, words()...)
}

// noZero is how a text says that it holds no zero byte.
var noZero = field{"pattern", `^[^\x00]*$`}

// given holds where a field is there and not empty.
func given(name, bound string, least any) object {
	return object{{"required", []string{name}}, {"properties", object{{name, object{{bound, least}}}}}}
}

// words are the schemas of texts that have a form.
func words() object {
	watchEvent := object{
		{"event", text(field{"enum", []string{"snapshot", "upsert", "delete"}})},
		{"id", described(text(), "Opaque. Of events: what Last-Event-ID takes.")},
		{"data", described(text(field{"contentMediaType", mediaJSON}), "Of snapshot, what is answered without watch; "+
			"of upsert and delete, one item; of a status, all of it.")},
	}
	return object{
		{"WatchEvent", described(object{{"type", "object"}}, "One server-sent event of a watch. A watch begins with "+
			"snapshot; upsert and delete follow. A snapshot may come again: it replaces all before it.").
			with("required", []string{"event", "id", "data"}).with("properties", watchEvent)},
		{"Selector", described(text(field{"pattern", snapshot.SelectorPattern}), "Asks for labels, as kubectl has it: k=v, "+
			"k!=v, k in (a,b), k notin (a,b), k, !k, and at most 100 of them by commas. Each value in parentheses counts "+
			"as one.")},
		{"Pattern", described(text(field{"pattern", patternForm}), "A name, or a pattern with *, ? and [a-z]. "+
			"A backslash has the next character stand for itself.")},
	}
}

// patternForm is the form of what path.Match takes.
const (
	formChar    = `(?:[^\\\-\]\x00]|\\[^\x00])`
	formRange   = formChar + `(?:-` + formChar + `)?`
	patternForm = `^(?:[^\[\\\x00]|\\[^\x00]|\[(?:\^(?:` + formRange + `)+|(?:[^\\\-\]\^\x00]|\\[^\x00])(?:-` +
		formChar + `)?(?:` + formRange + `)*)\])*$`
)
