package field

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/shardctl/shardctl/internal/decode"
)

// Text is one text. It may hold variables, unless it is one of a few.
type Text struct {
	To       *string
	Default  string
	Required string   // what is said where it is empty; empty: it may be
	OneOf    []string // all that it may be; none: any text
	Pattern  string   // that the text has, as a regular expression of the schema; empty: any text
	Valid    func(string) bool
	Must     string // what Valid takes, in words
	Message  string // what is said in place of Must, where the text may hold a password and is not to be quoted
	Secret   bool   // it is a password
}

func (t Text) read(n *decode.Node, r *decode.Reader) { *t.To = r.Text(n, t.Default) }

func (t Text) check() []decode.FieldError {
	if wrong := t.wrong(*t.To); wrong != nil && !decode.HasVariables(*t.To) {
		return []decode.FieldError{*wrong}
	}
	return nil
}

// wrong says what is wrong with a text that holds no variables; nil: nothing.
func (t Text) wrong(text string) *decode.FieldError {
	switch {
	case text == "" && t.Required != "":
		return &decode.FieldError{Message: t.Required}
	case text == "":
	case t.OneOf != nil && !slices.Contains(t.OneOf, text):
		return &decode.FieldError{Must: words(t.OneOf)}
	case t.Valid != nil && !t.Valid(text):
		return &decode.FieldError{Must: t.Must, Message: t.Message}
	}
	return nil
}

func (t Text) print() any {
	if t.Secret {
		return decode.HiddenPassword(*t.To)
	}
	return decode.TextOrNil(decode.WithoutSecrets(cmp.Or(*t.To, t.Default)))
}

func (t Text) expand(e *expander, field string) {
	written := cmp.Or(*t.To, t.Default)
	if *t.To = written; t.OneOf != nil {
		return
	}
	value, ok := e.text(field, written)
	if *t.To = value; ok {
		e.refuse(field, written, t.wrong(value))
	}
}

func (t Text) holds() any { return *t.To }

func (t Text) schema(int) []string {
	var members []string
	switch {
	case t.OneOf != nil:
		members = []string{orVariable(member("$comment", words(t.OneOf)), `"type": "string"`, member("enum", t.OneOf))}
	case t.Pattern != "":
		members = []string{member("$comment", t.Must), `"type": "string"`, member("pattern", t.Pattern)}
	default:
		members = []string{Ref("text")}
	}
	if t.Default != "" {
		members = append(members, member("default", t.Default))
	}
	return members
}

// Texts are a list of addresses, or one text in its place. Each may hold several, with commas between.
type Texts struct {
	To       *[]string
	Required string // what is said where there is none
	Form     string // of one address, for the schema: HOST:PORT
	Valid    func(address string) bool
	Message  string // what is said of one that is not valid. It is not quoted, as it may hold a password.
}

func (t Texts) read(n *decode.Node, r *decode.Reader) { *t.To = r.TextOrList(n) }

func (t Texts) check() []decode.FieldError {
	if len(*t.To) == 0 || len(*t.To) == 1 && strings.TrimSpace((*t.To)[0]) == "" {
		return []decode.FieldError{{Message: t.Required}}
	}
	var wrong []decode.FieldError
	for i, text := range *t.To {
		if decode.HasVariables(text) || t.valid(addresses(text)) {
			continue
		}
		var path []string // the text itself, where it is no list
		if len(*t.To) > 1 {
			path = []string{strconv.Itoa(i)}
		}
		wrong = append(wrong, decode.FieldError{Path: path, Message: t.Message})
	}
	return wrong
}

func (t Texts) valid(all []string) bool {
	return len(all) > 0 && !slices.ContainsFunc(all, func(one string) bool { return !t.Valid(one) })
}

func (t Texts) print() any {
	shown := make([]string, len(*t.To))
	for i, text := range *t.To {
		shown[i] = masked(text)
	}
	return shown
}

// expand leaves each address once, and by itself.
func (t Texts) expand(e *expander, field string) {
	all, set := []string{}, true
	for i, text := range *t.To {
		value, ok := e.text(field+"["+strconv.Itoa(i)+"]", text)
		all, set = append(all, value), set && ok
	}
	if *t.To = addresses(all...); set && !t.valid(*t.To) {
		e.refuse(field, "", &decode.FieldError{Message: t.Message})
	}
}

func (t Texts) holds() any { return *t.To }

func (t Texts) schema(int) []string {
	return []string{
		member("$comment", "a list of "+t.Form+", or "+t.Form+" with commas between"),
		`"type": ["array", "string"]`, `"items": {"$ref": "#/$defs/text"}`,
	}
}

// addresses are single addresses: each text may hold several, with commas between. One that is there twice is given
// once.
func addresses(texts ...string) []string {
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

// Patterns are a list of patterns of names, or one in its place. They are checked and expanded elsewhere.
type Patterns struct {
	settled
	To *[]string
}

func (p Patterns) read(n *decode.Node, r *decode.Reader) { *p.To = r.TextOrList(n) }
func (p Patterns) print() any                            { return *p.To }
func (p Patterns) holds() any                            { return *p.To }

func (p Patterns) schema(int) []string {
	return []string{
		`"$comment": "a pattern of names, or a list of them"`,
		`"type": ["array", "string"]`, `"items": {"$ref": "#/$defs/text"}`,
	}
}

// Map is a mapping of names to texts. The texts are checked and expanded elsewhere.
type Map struct {
	settled
	To *map[string]string
}

func (m Map) read(n *decode.Node, r *decode.Reader) { *m.To = r.Texts(n) }
func (m Map) print() any                            { return decode.Map(decode.WithoutSecretsIn(*m.To)) }
func (m Map) holds() any                            { return *m.To }
func (m Map) schema(int) []string                   { return []string{Ref("texts")} }
