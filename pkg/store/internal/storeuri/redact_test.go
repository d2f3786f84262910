package storeuri_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/pkg/store/internal/storeuri"
)

// A secret is hidden whole, whatever is in it and wherever it stands.
func TestRedactHidesSecretsWithAnAt(t *testing.T) {
	secrets := storeuri.Secrets{"password"}
	for _, text := range []string{
		"x://h/p?password=a@S3cret", "x://h/p?password=S3cret@a", "x://h:1/p?a=b&password=a@S3cret&c=d",
		"x://u:S3cret@h/p?password=S3cret@b", "x://u:S3cret?password=a@h/p", "x://u:a@S3cret@h/p", "h/p?password=a@S3cret",
	} {
		if got := secrets.Redact(text); strings.Contains(got, "S3cret") || !strings.Contains(got, "xxxxx") {
			t.Errorf("%s is shown as %s", text, got)
		}
	}
	for text, want := range map[string]string{
		"x://u:p@h/d?password=q&a=b": "x://u:xxxxx@h/d?password=xxxxx&a=b", "x://h/d?a=b@c": "x://h/d?a=b@c",
	} {
		if got := secrets.Redact(text); got != want {
			t.Errorf("%s is shown as %s, want %s", text, got, want)
		}
	}
}

// An error may quote what it does not like.
func TestScrubHidesQuotedSecrets(t *testing.T) {
	const secret = "a\"S3cret\\b"
	text := storeuri.Scrub(fmt.Sprintf("bad: %s, %q", secret, secret), []string{secret})
	if text != `bad: xxxxx, "xxxxx"` {
		t.Errorf("shown as %s", text)
	}
}
