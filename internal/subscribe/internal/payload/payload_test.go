package payload

import (
	"maps"
	"testing"

	"github.com/shardctl/shardctl/internal/subscribe"
)

func TestOf(t *testing.T) {
	for _, test := range []struct {
		typ, body string
		mediaType string
		form      Form
	}{
		{"application/json", `{"a": 1}`, "application/json", JSON},
		{"application/vnd.x+json; charset=UTF-8", `1`, "application/vnd.x+json; charset=UTF-8", JSON},
		{"application/json", `{"a"`, "application/json", Binary},
		{"application/json", "", "application/json", Binary},
		{"application/json", "\"\xff\"", "application/json", Binary},
		{"application/json; charset=utf-16", `1`, "application/json; charset=utf-16", Binary},
		{"text/csv", "a,b\n", "text/csv", Text},
		{"text/csv", "a,\xff", "text/csv", Binary},
		{"text/plain", "", "text/plain", Text},
		{"", ` {"a": 1}`, typeJSON, JSON},
		{"", `[1]`, typeJSON, JSON},
		{"", `123`, typeText, Text},
		{"", `{not json`, typeText, Text},
		{"", "", typeText, Text},
		{"", "\x00\xff", typeBinary, Binary},
		{"no type\r\n", `{}`, typeJSON, JSON},
	} {
		mediaType, form := Of(subscribe.Message{Type: test.typ, Body: []byte(test.body)})
		if mediaType != test.mediaType || form != test.form {
			t.Errorf("%q %q: %q in form %d, want %q in %d", test.typ, test.body, mediaType, form, test.mediaType,
				test.form)
		}
	}
	for typ, want := range map[string]string{"": "", "text/csv": "text/csv", "/": ""} {
		if mediaType, form := Of(subscribe.Message{Type: typ}); mediaType != want || form != None {
			t.Errorf("no body of type %q: %q in form %d", typ, mediaType, form)
		}
	}
}

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"orders/3/42": "orders/3/42", "größe/1": "größe/1", "a\nb\x7f": `a\x0ab\x7f`, "a\xffb": `a\xffb`,
		"\u0085": `\xc2\x85`, "�": "�",
	} {
		if got := Clean(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestHeaders(t *testing.T) {
	text, binary := Headers(subscribe.Message{
		Type:    "odd\n",
		Headers: map[string]string{"a": "1", "b": "x\r\n", "c": "\xff", "d\xff": "2"},
	})
	if want := map[string]string{"a": "1", "b": "x\r\n", `d\xff`: "2", "content-type": "odd\n"}; !maps.Equal(text,
		want) {
		t.Errorf("text %q, want %q", text, want)
	}
	if len(binary) != 1 || string(binary["c"]) != "\xff" {
		t.Errorf("binary %q", binary)
	}
	if text, binary := Headers(subscribe.Message{Type: "text/csv"}); text != nil || binary != nil {
		t.Errorf("without headers: %q, %q", text, binary)
	}
}
