package main

import (
	"fmt"
	"strings"
)

// schema is a JSON schema, decoded.
type schema = map[string]any

// definitions are schemas by name. Those of a kind have gvk set, which writing turns into a file of its own.
type definitions map[string]schema

const (
	refPrefix  = "#/definitions/"
	objectMeta = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
	// gvk names the file of a kind as kubeconform asks for it: deployment-apps-v1.
	gvk = "x-file"
)

// handWritten are definitions whose OpenAPI form says less, or more, than what the API server takes.
var handWritten = definitions{
	"io.k8s.apimachinery.pkg.api.resource.Quantity":   {"type": []any{"string", "number"}},
	"io.k8s.apimachinery.pkg.util.intstr.IntOrString": {"type": []any{"string", "integer"}},
}

// convertKinds converts the kinds that are named and everything that they refer to.
func convertKinds(all map[string]map[string]any, kinds []string) (definitions, error) {
	converted := definitions{}
	open := append([]string(nil), kinds...)
	for len(open) > 0 {
		name := open[0]
		open = open[1:]
		if converted[name] != nil {
			continue
		}
		original, ok := all[name]
		if !ok {
			return nil, fmt.Errorf("the OpenAPI document defines no %s", name)
		}
		made := handWritten[name]
		if made == nil {
			made = convert(original)
			asKind(made, original)
		}
		converted[name] = made
		open = append(open, references(made)...)
	}
	return converted, nil
}

// convert makes a strict JSON schema of an OpenAPI one. What says nothing about validity goes, and an object that names
// its properties has no others.
func convert(open schema) schema {
	if open["format"] == "int-or-string" || open["x-kubernetes-int-or-string"] == true {
		return schema{"type": []any{"string", "integer"}}
	}
	strict := schema{}
	for word, value := range open {
		switch word {
		case "properties":
			properties := schema{}
			for name, property := range value.(schema) {
				properties[name] = convert(property.(schema))
			}
			strict[word] = properties
			if open["x-kubernetes-preserve-unknown-fields"] != true && open["additionalProperties"] == nil {
				strict["additionalProperties"] = false
			}
		case "items", "additionalProperties", "not":
			strict[word] = convertOne(value)
		case "allOf", "anyOf", "oneOf":
			strict[word] = convertParts(value)
		case "$ref", "enum", "type", "required", "pattern",
			"minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties":
			strict[word] = value
		}
	}
	return strict
}

func convertOne(value any) any {
	if part, ok := value.(schema); ok {
		return convert(part)
	}
	return value
}

// convertParts converts the branches of a combination. They speak of the object that holds them, so they close nothing.
func convertParts(value any) any {
	parts := []any{}
	for _, part := range value.([]any) {
		made := convertOne(part)
		if object, ok := made.(schema); ok && object["additionalProperties"] == false {
			delete(object, "additionalProperties")
		}
		parts = append(parts, made)
	}
	return parts
}

// asKind makes the schema of a kind demand its names, and no status, when the OpenAPI form says that it is one.
func asKind(made schema, open schema) {
	kinds, ok := open["x-kubernetes-group-version-kind"].([]any)
	if !ok || len(kinds) != 1 {
		return
	}
	if properties, ok := made["properties"].(schema); ok && properties["kind"] != nil {
		names := kinds[0].(schema)
		nameKind(made, names["group"].(string), names["version"].(string), names["kind"].(string))
	}
}

func nameKind(made schema, group, version, kind string) {
	apiVersion := strings.TrimPrefix(group+"/"+version, "/")
	properties := made["properties"].(schema)
	properties["apiVersion"] = schema{"enum": []any{apiVersion}}
	properties["kind"] = schema{"enum": []any{kind}}
	delete(properties, "status")
	required := []any{"apiVersion", "kind", "metadata"}
	for _, name := range listOf(made["required"]) {
		if name != "status" {
			required = append(required, name)
		}
	}
	made["required"] = required
	file := strings.ToLower(kind) + "-" + strings.ToLower(version)
	if group != "" {
		file = strings.ToLower(kind) + "-" + strings.Split(group, ".")[0] + "-" + strings.ToLower(version)
	}
	made[gvk] = file
}

func listOf(value any) []any {
	list, _ := value.([]any)
	return list
}

// addCustomResource adds each version of a custom resource. Its metadata, which a CustomResourceDefinition leaves open,
// is that of all other kinds.
func (d definitions) addCustomResource(resource customResource) {
	for _, version := range resource.Spec.Versions {
		kind := resource.Spec.Names.Kind
		made := convert(version.Schema.OpenAPIV3Schema)
		nameKind(made, resource.Spec.Group, version.Name, kind)
		made["properties"].(schema)["metadata"] = schema{"$ref": refPrefix + objectMeta}
		d[reversed(resource.Spec.Group)+"."+version.Name+"."+kind] = made
	}
}

// references are the names of the definitions that a schema refers to.
func references(value any) []string {
	var names []string
	switch value := value.(type) {
	case schema:
		if name, ok := value["$ref"].(string); ok {
			names = append(names, strings.TrimPrefix(name, refPrefix))
		}
		for _, part := range value {
			names = append(names, references(part)...)
		}
	case []any:
		for _, part := range value {
			names = append(names, references(part)...)
		}
	}
	return names
}
