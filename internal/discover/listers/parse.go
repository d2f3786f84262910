package listers

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v4"

	"github.com/shardctl/shardctl/internal/discover"
)

// readYAML reads what readJSON reads, as YAML of at most [maxYAML] bytes.
func readYAML(r io.Reader) ([]discover.Found, error) {
	content, err := io.ReadAll(newBounded(r, maxYAML))
	if err != nil {
		return nil, err
	}
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
	found := make([]discover.Found, 0, min(len(all), discover.MaxFound))
	for _, e := range all {
		if found, err = discover.Append(found, e.Found); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// entry is a Found as lists have it: a name alone will do, and a partition is a number.
type entry struct{ discover.Found }

type entryFields struct {
	Name      string            `json:"name" yaml:"name"`
	Partition *int              `json:"partition" yaml:"partition"`
	Labels    map[string]string `json:"labels" yaml:"labels"`
	Weight    *int              `json:"weight" yaml:"weight"`
}

func (e *entry) set(f entryFields) error {
	if len(f.Labels) > discover.MaxLabels { // at once: a million maps would take more memory than the text of them
		return fmt.Errorf("%.80q: labels: are %d, at most %d are allowed", f.Name, len(f.Labels), discover.MaxLabels)
	}
	e.Found = discover.Found{Name: f.Name, Labels: f.Labels}
	if f.Partition != nil {
		e.Partition = fmt.Sprint(*f.Partition)
	}
	if f.Weight != nil {
		if e.Weight = *f.Weight; e.Weight == 0 {
			return fmt.Errorf("%.80q: weight: is 0, must be a whole number from 1 to %d", f.Name, discover.MaxWeight)
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
