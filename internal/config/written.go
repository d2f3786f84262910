package config

import (
	"slices"
	"strconv"
	"strings"

	"github.com/shardctl/shardctl/internal/decode"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// written are the values of fields, by field, that came from outside the file, as the file has them: $(NAME),
// $(file:PATH). They are shown instead of what came in.
type written map[string]string

// note adds what stands in n, under the name that the field has where it is printed. A task's own variables do not
// come from outside.
func (w written) note(prefix string, n *decode.Node) {
	from := n.Field()
	n.Scalars(func(n *decode.Node) {
		if unchanged := n.Index >= 0 && n.Text == n.Raw; unchanged || !n.Outside() {
			return
		}
		field := strings.TrimPrefix(strings.TrimPrefix(n.Field(), from), ".")
		if strings.HasPrefix(field, "[") || prefix == "" || field == "" {
			w[prefix+field] = n.Raw
			return
		}
		w[prefix+"."+field] = n.Raw
	})
}

// over is what is to be printed, with what came from outside as it is written.
func (w written) over(prefix string, fields decode.Fields) decode.Fields {
	if len(w) == 0 {
		return fields
	}
	shown := make(decode.Fields, len(fields))
	for i, f := range fields {
		field := decode.Under(prefix, f.Name)
		raw, outside := w[field]
		switch below := f.Value.(type) {
		case decode.Fields:
			f.Value = w.over(field, below)
		case []string:
			f.Value = w.items(field, below)
		}
		if outside {
			f.Value = hidden(f.Name, raw)
		}
		shown[i] = f
	}
	return shown
}

// items is a list to be printed, with what came from outside as it is written.
func (w written) items(field string, list []string) []string {
	shown := slices.Clone(list)
	for i := range shown {
		if raw, outside := w[field+"["+strconv.Itoa(i)+"]"]; outside {
			shown[i] = raw
		}
	}
	return decode.WithoutSecretsOf(shown)
}

// hidden is a text beside its name without secrets.
func hidden(name, text string) string {
	if d, err := driver.Lookup(text); err == nil {
		return d.Redact(text)
	}
	return decode.SecretValue(name, text)
}
