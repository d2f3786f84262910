package field

import (
	"regexp"

	"github.com/shardctl/shardctl/internal/decode"
)

var (
	labelName  = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._/-]{0,251}[A-Za-z0-9])?$`)
	labelValue = regexp.MustCompile(`^([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$`)
)

// IsLabelValue reports whether a label may have the value; an empty one is allowed.
func IsLabelValue(text string) bool { return labelValue.MatchString(text) }

// Labels is a mapping of the names of labels to their values.
type Labels struct {
	settled
	To *map[string]string
}

// read says which are none.
func (l Labels) read(n *decode.Node, r *decode.Reader) {
	labels := r.Texts(n)
	if *l.To = labels; n == nil {
		return
	}
	for _, e := range n.Entries {
		if !labelName.MatchString(e.Name) {
			r.AddAt(e.Place, decode.Under(n.Field(), e.Name),
				"the name of a label must be at most 253 letters, digits, '-', '_', '.' and '/', "+
					"beginning and ending with a letter or digit")
		}
		if text, ok := labels[e.Name]; ok && !labelValue.MatchString(text) {
			r.Refuse(e.Value, e.Value.Rule.Allowed())
		}
	}
}

func (l Labels) print() any        { return decode.Map(*l.To) }
func (l Labels) holds() any        { return *l.To }
func (Labels) schema(int) []string { return []string{Ref("labels")} }
