package discover

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v4"
)

// MaxSize bounds what a list may be in bytes.
const MaxSize = 16 << 20

// ParseJSON reads a list of names, of mappings with name, partition, labels and weight, or of both.
func ParseJSON(content []byte) ([]Found, error) {
	var all []entry
	d := json.NewDecoder(bytes.NewReader(content))
	d.DisallowUnknownFields()
	if err := d.Decode(&all); err != nil {
		return nil, fmt.Errorf("is not a JSON list of names, or of objects with name, partition, labels, weight: %w",
			err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("holds more than one JSON list")
	}
	if all == nil {
		return nil, errors.New("is null, want a JSON list; an empty one is []")
	}
	return foundOf(all), nil
}

// ParseYAML reads what ParseJSON reads, as YAML.
func ParseYAML(content []byte) ([]Found, error) {
	var all []entry
	d := yaml.NewDecoder(bytes.NewReader(content))
	d.KnownFields(true)
	if err := d.Decode(&all); err != nil {
		return nil, fmt.Errorf(
			"is not a YAML list of names, or of mappings with name, partition, labels, weight: %w", err)
	}
	if all == nil {
		return nil, errors.New("is empty, want a YAML list; an empty one is []")
	}
	if err := d.Decode(&yaml.Node{}); !errors.Is(err, io.EOF) {
		return nil, errors.New("holds a second document, want one YAML list")
	}
	return foundOf(all), nil
}

// ParseLines reads a name from each line. Empty lines are skipped, and so are lines that begin with #.
func ParseLines(content []byte) []Found {
	all := []Found{}
	for line := range strings.Lines(string(content)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			all = append(all, Found{Name: line})
		}
	}
	return all
}

// entry is a Found as lists have it: a name alone will do, and a partition is a number.
type entry struct{ Found }

type entryFields struct {
	Name      string            `json:"name" yaml:"name"`
	Partition *int              `json:"partition" yaml:"partition"`
	Labels    map[string]string `json:"labels" yaml:"labels"`
	Weight    *int              `json:"weight" yaml:"weight"`
}

func (e *entry) set(f entryFields) error {
	e.Found = Found{Name: f.Name, Labels: f.Labels}
	if f.Partition != nil {
		e.Partition = fmt.Sprint(*f.Partition)
	}
	if f.Weight != nil {
		if e.Weight = *f.Weight; e.Weight == 0 {
			return fmt.Errorf("%.80q: weight: is 0, must be a whole number from 1 to %d", f.Name, MaxWeight)
		}
	}
	return nil
}

// UnmarshalJSON reads a text or an object.
func (e *entry) UnmarshalJSON(content []byte) error {
	if len(content) > 0 && content[0] == '"' {
		return json.Unmarshal(content, &e.Name)
	}
	var f entryFields
	d := json.NewDecoder(bytes.NewReader(content))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return err
	}
	return e.set(f)
}

// UnmarshalYAML reads a scalar as it is written, or a mapping.
func (e *entry) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		e.Name = n.Value
		return nil
	}
	var f entryFields
	if err := knownFields(n); err != nil {
		return err
	}
	if err := n.Decode(&f); err != nil {
		return err
	}
	return e.set(f)
}

// knownFields refuses others, since a decoder does not pass its strictness on.
func knownFields(n *yaml.Node) error {
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		switch name := n.Content[i].Value; name {
		case "name", "partition", "labels", "weight":
		default:
			return fmt.Errorf("line %d: %.40q is not a field, allowed are name, partition, labels, weight",
				n.Content[i].Line, name)
		}
	}
	return nil
}

func foundOf(all []entry) []Found {
	found := make([]Found, len(all))
	for i, e := range all {
		found[i] = e.Found
	}
	return found
}
