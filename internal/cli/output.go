package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"
)

// format is what -o says.
type format string

const (
	formatTable format = "table"
	formatWide  format = "wide"
	formatJSON  format = "json"
	formatYAML  format = "yaml"
	formatName  format = "name"
)

func parseFormat(text string) (format, error) {
	switch f := format(text); f {
	case formatTable, formatWide, formatJSON, formatYAML, formatName:
		return f, nil
	default:
		return "", usage("-o %q: want table, wide, json, yaml or name", text)
	}
}

// writeJSON writes v over several lines, or, for streams, on one.
func writeJSON(w io.Writer, v any, compact bool) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	if !compact {
		e.SetIndent("", "  ")
	}
	return e.Encode(v)
}

// writeYAML writes v with the fields of its JSON, in their order.
func writeYAML(w io.Writer, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(b, &doc); err != nil {
		return fmt.Errorf("write YAML: %w", err)
	}
	block(&doc)
	var out bytes.Buffer
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	if err := e.Encode(&doc); err != nil {
		return fmt.Errorf("write YAML: %w", err)
	}
	_, err = w.Write(out.Bytes())
	return err
}

// block takes the style of JSON out of nodes. What is empty stays as [] and {}, and texts that look like something else
// stay quoted by their tag.
func block(n *yaml.Node) {
	if len(n.Content) > 0 || n.Kind == yaml.ScalarNode {
		n.Style = 0
	}
	for _, c := range n.Content {
		block(c)
	}
}
