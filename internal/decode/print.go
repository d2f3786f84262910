package decode

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"time"
)

// Fields is a mapping to be printed, in order. What is nil in it is left out.
type Fields []Field

// Field is one of them. Its value is text, a number, a truth, a list of texts, or Fields.
type Field struct {
	Name  string
	Value any
}

// Pairs are fields given as names and values in turn. A duration is printed as short as it can be.
func Pairs(namesAndValues ...any) Fields {
	fields := make(Fields, 0, len(namesAndValues)/2)
	for i := 0; i+1 < len(namesAndValues); i += 2 {
		name, _ := namesAndValues[i].(string)
		value := namesAndValues[i+1]
		if d, ok := value.(time.Duration); ok {
			value = Short(d)
		}
		fields = append(fields, Field{name, value})
	}
	return fields
}

// TextOrNil is nil for an empty text.
func TextOrNil(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// Map is a mapping in order of names, nil for an empty one.
func Map(m map[string]string) any {
	if len(m) == 0 {
		return nil
	}
	fields := make(Fields, 0, len(m))
	for _, name := range slices.Sorted(maps.Keys(m)) {
		fields = append(fields, Field{name, m[name]})
	}
	return fields
}

// Short is a duration without the zero units that time.Duration adds: 5m, not 5m0s.
func Short(d time.Duration) string {
	switch {
	case d == 0:
		return "0s"
	case d%time.Hour == 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d%time.Minute == 0 && d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d%time.Minute == 0:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	default:
		return d.String()
	}
}

// userInfo is USER:PASSWORD@ in a URI; the last @ before a blank or quote ends it, so that a password with @ is
// hidden whole.
var userInfo = regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)([^\s"':/@]*):([^\s"']*)@`)

// Masked stands where a secret was.
const Masked = "xxxxx"

// WithoutPasswords hides the passwords of all URIs in a text. A reference to a variable is none.
func WithoutPasswords(text string) string {
	return userInfo.ReplaceAllStringFunc(text, func(match string) string {
		part := userInfo.FindStringSubmatch(match)
		if (&Node{Raw: part[3]}).VariableOnly() {
			return match
		}
		return part[1] + part[2] + ":" + Masked + "@"
	})
}

// HiddenPassword is a password as it is printed: nil for none, and a reference to a variable as it is written.
func HiddenPassword(password string) any {
	if password == "" || (&Node{Raw: password}).VariableOnly() {
		return TextOrNil(password)
	}
	return Masked
}
