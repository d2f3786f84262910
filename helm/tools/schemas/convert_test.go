package main

import (
	"reflect"
	"strings"
	"testing"
)

func TestConvert(t *testing.T) {
	t.Parallel()
	text := schema{"type": "string"}
	tests := map[string]struct{ open, want schema }{
		"an object knows its properties only": {
			schema{
				"type": "object", "description": "…",
				"properties": schema{"name": schema{"type": "string", "description": "…"}},
			},
			schema{"type": "object", "properties": schema{"name": text}, "additionalProperties": false},
		},
		"a property may be called like a word of the schema": {
			schema{"properties": schema{"description": text, "format": text}},
			schema{"properties": schema{"description": text, "format": text}, "additionalProperties": false},
		},
		"a map stays one": {
			schema{"type": "object", "additionalProperties": schema{"type": "string", "format": "byte"}},
			schema{"type": "object", "additionalProperties": text},
		},
		"what keeps unknown fields is open": {
			schema{"properties": schema{"a": text}, "x-kubernetes-preserve-unknown-fields": true},
			schema{"properties": schema{"a": text}},
		},
		"a branch closes nothing": {
			schema{"oneOf": []any{schema{"properties": schema{"a": text}, "required": []any{"a"}}}},
			schema{"oneOf": []any{schema{"properties": schema{"a": text}, "required": []any{"a"}}}},
		},
		"a port is a number or a name": {
			schema{"items": schema{"type": "string", "format": "int-or-string"}},
			schema{"items": schema{"type": []any{"string", "integer"}}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := convert(test.open); !reflect.DeepEqual(got, test.want) {
				t.Errorf("got  %v\nwant %v", got, test.want)
			}
		})
	}
}

func TestAKindDemandsItsNamesAndNoStatus(t *testing.T) {
	t.Parallel()
	all := map[string]schema{
		"example.Kind": {
			"properties": schema{
				"apiVersion": schema{"type": "string"}, "kind": schema{"type": "string"},
				"spec":   schema{"$ref": refPrefix + "example.Spec"},
				"status": schema{"$ref": refPrefix + "example.Status"},
			},
			"required":                        []any{"spec", "status"},
			"x-kubernetes-group-version-kind": []any{schema{"group": "some.example", "version": "v1", "kind": "Kind"}},
		},
		"example.Spec":   {"type": "object"},
		"example.Status": {"type": "object"},
	}
	got, err := convertKinds(all, []string{"example.Kind"})
	if err != nil {
		t.Fatal(err)
	}
	want := definitions{
		"example.Kind": {
			"properties": schema{
				"apiVersion": schema{"enum": []any{"some.example/v1"}}, "kind": schema{"enum": []any{"Kind"}},
				"spec": schema{"$ref": refPrefix + "example.Spec"},
			},
			"additionalProperties": false,
			"required":             []any{"apiVersion", "kind", "metadata", "spec"},
			gvk:                    "kind-some-v1",
		},
		"example.Spec": {"type": "object"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestAKindThatIsMissingIsNamed(t *testing.T) {
	t.Parallel()
	_, err := convertKinds(nil, []string{"example.Kind"})
	if err == nil || !strings.Contains(err.Error(), "example.Kind") {
		t.Errorf("the error must name the kind: %v", err)
	}
}
