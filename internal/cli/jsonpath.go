package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/util/jsonpath"
)

// parsePath reads a template of JSONPath as kubectl does: braces and the first dot may be left out of a plain path.
func parsePath(text string) (*jsonpath.JSONPath, error) {
	if text == "" {
		return nil, errors.New("the path is empty")
	}
	if !strings.Contains(text, "{") {
		text = "{." + strings.TrimPrefix(text, ".") + "}"
	}
	p := jsonpath.New("jsonpath").AllowMissingKeys(true)
	if err := p.Parse(text); err != nil {
		return nil, err
	}
	return p, nil
}

// writePath writes what the template finds in v, with a line end.
func writePath(w io.Writer, v any, template string) error {
	p, err := parsePath(template)
	if err != nil {
		return err
	}
	tree, err := treeOf(v)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := p.Execute(&out, tree); err != nil {
		return usage("-o jsonpath=%s: %w", template, err)
	}
	if !bytes.HasSuffix(out.Bytes(), []byte("\n")) {
		out.WriteByte('\n')
	}
	_, err = w.Write(out.Bytes())
	return err
}

// treeOf is v as JSON has it. Whole numbers stay whole, so that tokens are shown as they are.
func treeOf(v any) (any, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var tree any
	if err := d.Decode(&tree); err != nil {
		return nil, fmt.Errorf("read JSON: %w", err)
	}
	return withNumbers(tree), nil
}

func withNumbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		f, _ := v.Float64() // it is a number
		return f
	case []any:
		for i := range v {
			v[i] = withNumbers(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = withNumbers(v[name])
		}
	}
	return v
}

// sortBy orders items by what a path finds in each: numbers and times by value, anything else as text. Items without it
// come first, and those that are equal stay in order.
func sortBy[T any](items []T, path string) error {
	type keyed struct {
		item T
		key  any
	}
	all, found := make([]keyed, len(items)), len(items) == 0
	var fields []string
	for i := range items {
		tree, err := treeOf(items[i])
		if err != nil {
			return err
		}
		p, err := parsePath(path)
		if err != nil {
			return usage("--sort-by %s: %w; a path is as .restarts", path, err)
		}
		results, err := p.FindResults(tree)
		if err != nil {
			return usage("--sort-by %s: %w", path, err)
		}
		all[i].item = items[i]
		if len(results) > 0 && len(results[0]) > 0 && results[0][0].IsValid() {
			all[i].key, found = results[0][0].Interface(), true
		}
		fields = fieldsOf(tree)
	}
	if !found {
		return usage("--sort-by %s: nothing listed has it; the fields are %s", path, strings.Join(fields, ", "))
	}
	slices.SortStableFunc(all, func(a, b keyed) int { return compareValues(a.key, b.key) })
	for i := range all {
		items[i] = all[i].item
	}
	return nil
}

func fieldsOf(tree any) []string {
	var names []string
	if m, ok := tree.(map[string]any); ok {
		for name := range m {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func compareValues(a, b any) int {
	if a == nil || b == nil {
		return cmp.Compare(rank(a), rank(b))
	}
	x, isNumber := numberOf(a)
	y, areNumbers := numberOf(b)
	if isNumber && areNumbers {
		return cmp.Compare(x, y)
	}
	s, t := fmt.Sprint(a), fmt.Sprint(b)
	u, notTime := time.Parse(time.RFC3339Nano, s)
	v, neither := time.Parse(time.RFC3339Nano, t)
	if notTime == nil && neither == nil {
		return u.Compare(v)
	}
	return cmp.Compare(s, t)
}

func rank(v any) int {
	if v == nil {
		return 0
	}
	return 1
}

func numberOf(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	default:
		return 0, false
	}
}
