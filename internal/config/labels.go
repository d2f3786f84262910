package config

import (
	"regexp"

	"github.com/shardctl/shardctl/pkg/tasks/decode"
)

var (
	labelName  = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._/-]{0,251}[A-Za-z0-9])?$`)
	labelValue = regexp.MustCompile(`^([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$`)
	dnsName    = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$`)
)

// fieldReader reads the fields that have forms of their own.
type fieldReader struct {
	*decode.Reader
	opts Options
}

func (l fieldReader) labels(n *decode.Node) map[string]string {
	labels := l.Texts(n)
	if n == nil {
		return labels
	}
	for _, e := range n.Entries {
		if !labelName.MatchString(e.Name) {
			l.AddAt(e.Place, decode.Under(n.Field(), e.Name),
				"the name of a label must be at most 253 letters, digits, '-', '_', '.' and '/', "+
					"beginning and ending with a letter or digit")
		}
		if text, ok := labels[e.Name]; ok && !labelValue.MatchString(text) {
			l.Refuse(e.Value, e.Value.Rule.Allowed())
		}
	}
	return labels
}

// matching reads text that has a form. The schema lets through what holds "$(", since that may have been a variable;
// here it is final.
func (l fieldReader) matching(form *regexp.Regexp, n *decode.Node, unset string) string {
	text := l.Text(n, unset)
	if n != nil && !n.Bad && n.Shape == decode.Scalar && !form.MatchString(text) {
		l.Refuse(n, n.Rule.Allowed())
	}
	return text
}
