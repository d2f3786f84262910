package access

import (
	"fmt"
	"slices"
	"strings"
)

// Expander replaces the variables of a kind's fields, and gathers what is wrong, so that all of it is said at once.
// One goroutine uses it.
type Expander struct {
	kind   string
	expand func(field, text string) (string, error)
	errs   []error
}

// NewExpander is for the fields below that of a kind. Expand replaces the variables of one.
func NewExpander(kind string, expand func(field, text string) (string, error)) *Expander {
	return &Expander{kind: kind, expand: expand}
}

// Text is a field's text; empty where it is wrong.
func (e *Expander) Text(field, text string) string {
	value, err := e.expand(e.kind+"."+field, text)
	if err != nil {
		e.errs = append(e.errs, err)
		return ""
	}
	return value
}

// Texts is a field's list of texts.
func (e *Expander) Texts(field string, texts []string) []string {
	expanded := make([]string, len(texts))
	for i, text := range texts {
		expanded[i] = e.Text(fmt.Sprintf("%s[%d]", field, i), text)
	}
	return expanded
}

// Login are the fields of a login, which stand below a field, or below the kind where that is empty.
func (e *Expander) Login(below string, l Login) Login {
	if below != "" {
		below += "."
	}
	return Login{
		User:         e.Text(below+"user", l.User),
		Password:     e.Text(below+"password", l.Password),
		PasswordFile: e.Text(below+"passwordFile", l.PasswordFile),
	}
}

// TLS are the fields of tls.
func (e *Expander) TLS(t TLS) TLS {
	return TLS{
		CAFile:   e.Text("tls.caFile", t.CAFile),
		CertFile: e.Text("tls.certFile", t.CertFile),
		KeyFile:  e.Text("tls.keyFile", t.KeyFile),
	}
}

// Add says what else is wrong. Nil errors are nothing.
func (e *Expander) Add(errs ...error) {
	for _, err := range errs {
		if err != nil {
			e.errs = append(e.errs, err)
		}
	}
}

// Err is all that is wrong, in one line; nil: nothing is.
func (e *Expander) Err() error { return Join(e.errs) }

// Join is all errors in one line; nil where there are none.
func Join(errs []error) error {
	var all error
	for _, err := range errs {
		if all == nil {
			all = err
		} else {
			all = fmt.Errorf("%w; %w", all, err)
		}
	}
	return all
}

// Addresses are single addresses: each text may hold several, with commas between. One that is there twice is given
// once.
func Addresses(texts []string) []string {
	var all []string
	for _, text := range texts {
		for one := range strings.SplitSeq(text, ",") {
			if one = strings.TrimSpace(one); one != "" && !slices.Contains(all, one) {
				all = append(all, one)
			}
		}
	}
	return all
}
