package config

import (
	"regexp"
	"strings"

	"github.com/shardctl/shardctl/pkg/elect/store"
)

// masked stands where a secret was.
const masked = "xxxxx"

var (
	secretName = regexp.MustCompile(`(?i)token|secret|passw|passphrase|credential|authorization|cookie|api[-_]?key|private[-_]?key|access[-_]?key|authmechanismproperties`)
	// secretArg is a command's argument --password=…, or NAME_TOKEN=….
	secretArg = regexp.MustCompile(`^(-{0,2}[A-Za-z0-9_.-]+)=(.+)$`)
	// userInfo is USER:PASSWORD@ in a URI; the last @ before a blank or quote ends it, so that a password with @ is hidden whole.
	userInfo  = regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)([^\s"':/@]*):([^\s"']*)@`)
	parameter = regexp.MustCompile(`([?&]([^=&\s"'#]+)=)([^&\s"'#]+)`)
)

// Masked is the store's URI as it can be shown: without its password and other secrets. It takes wrong URIs as well,
// and then rather hides too much.
func (s Store) Masked() string {
	d, err := store.Lookup(s.URI)
	if err != nil {
		return maskText(s.URI)
	}
	return d.Redact(s.URI)
}

// maskText hides passwords of URIs, and secrets in their parameters, wherever they stand in a text. References to variables are
// no secrets.
func maskText(text string) string {
	text = userInfo.ReplaceAllStringFunc(text, func(match string) string {
		part := userInfo.FindStringSubmatch(match)
		return part[1] + part[2] + ":" + maskValue(part[3]) + "@"
	})
	return parameter.ReplaceAllStringFunc(text, func(match string) string {
		part := parameter.FindStringSubmatch(match)
		if !secretName.MatchString(part[2]) {
			return match
		}
		return part[1] + maskValue(part[3])
	})
}

// maskValue hides a secret, unless it is only referred to.
func maskValue(value string) string {
	if value == "" || strings.Contains(value, "$(") && !strings.Contains(value, "$$(") {
		return value
	}
	return masked
}

// maskNamed masks what stands under a name: all of it when the name says that it is a secret.
func maskNamed(name, value string) string {
	if secretName.MatchString(name) {
		return maskValue(value)
	}
	return maskText(value)
}

func maskNamedAll(values map[string]string) map[string]string {
	if values == nil {
		return nil
	}
	shown := make(map[string]string, len(values))
	for name, value := range values {
		shown[name] = maskNamed(name, value)
	}
	return shown
}

// maskArgs masks the arguments of a command: of --password=X and --password X the X.
func maskArgs(args []string) []string {
	shown := make([]string, len(args))
	for i, arg := range args {
		shown[i] = maskText(arg)
		if part := secretArg.FindStringSubmatch(arg); part != nil && secretName.MatchString(part[1]) {
			shown[i] = part[1] + "=" + maskValue(part[2])
		}
		if i > 0 && strings.HasPrefix(args[i-1], "-") && !strings.Contains(args[i-1], "=") && secretName.MatchString(args[i-1]) &&
			!strings.HasPrefix(arg, "-") {
			shown[i] = maskValue(arg)
		}
	}
	return shown
}
