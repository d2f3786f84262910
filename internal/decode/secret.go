package decode

import (
	"regexp"
	"strings"
)

// secretWords are parts of the names of variables, headers, options and parameters that hold secrets.
//
//nolint:gosec // names, no secrets
const secretWords = `(?:pass|pwd|secret|token|credential|cookie|signature|session|dsn|auth|private|key|jwt)`

var (
	secretName = regexp.MustCompile(`(?i)` + secretWords)
	placeName  = regexp.MustCompile(`(?i)(?:file|path|dir)s?$`)
	// namedSecret is NAME=VALUE, NAME: VALUE and "NAME": "VALUE", as options, parameters of URIs, connection strings,
	// headers and JSON have them. A host with a port looks like one.
	namedSecret = regexp.MustCompile(`(?i)((?://)?[\w.-]*` + secretWords + `[\w.-]*)(["']?\s*[=:]\s*)` +
		`("[^"]*"|'[^']*'|(?:` + schemes + `\s+)?[^\s&"']+)`)
	justPort  = regexp.MustCompile(`^\d{1,5}(?:/.*)?$`)
	reference = regexp.MustCompile(`(?i)^(?:` + schemes + `\s+)?\$\([^)]*\)$`)
)

// schemes are those of the header Authorization, before the secret.
const schemes = `(?:bearer|basic|digest|token|apikey)`

// IsSecretName reports whether a value of this name may be a secret, as the names of variables and headers go. It rather
// says so too often. What names a file is none.
func IsSecretName(name string) bool {
	return secretName.MatchString(name) && !placeName.MatchString(name)
}

// WithoutSecrets hides the passwords of all URIs in a text, and what stands behind the name of a secret: --token=…,
// ?api_key=…, "password": "…". References to variables stay.
func WithoutSecrets(text string) string {
	return namedSecret.ReplaceAllStringFunc(WithoutPasswords(text), func(match string) string {
		part := namedSecret.FindStringSubmatch(match)
		name, between, value := part[1], part[2], part[3]
		quote := ""
		if value[0] == '"' || value[0] == '\'' {
			quote, value = value[:1], value[1:len(value)-1]
		}
		host := strings.HasPrefix(name, "//") && between == ":" && justPort.MatchString(value)
		if host || value == "" || !IsSecretName(name) || isReference(value) {
			return match
		}
		return name + between + quote + Masked + quote
	})
}

// SecretValue is a value as it is printed beside its name: hidden where the name is that of a secret, unless it is a
// reference to a variable, and else without the secrets in it.
func SecretValue(name, value string) string {
	switch {
	case value == "", IsSecretName(name) && isReference(value):
		return value
	case IsSecretName(name):
		return Masked
	}
	return WithoutSecrets(value)
}

// WithoutSecretsIn is SecretValue of each value.
func WithoutSecretsIn(m map[string]string) map[string]string {
	shown := make(map[string]string, len(m))
	for name, value := range m {
		shown[name] = SecretValue(name, value)
	}
	return shown
}

// WithoutSecretsOf are the arguments of a command as they are printed: what follows an option with the name of a secret
// is hidden as well.
func WithoutSecretsOf(arguments []string) []string {
	shown := make([]string, len(arguments))
	for i, arg := range arguments {
		shown[i] = WithoutSecrets(arg)
		if i == 0 || strings.HasPrefix(arg, "-") {
			continue
		}
		if before := arguments[i-1]; strings.HasPrefix(before, "-") && !strings.ContainsAny(before, "=: ") {
			shown[i] = SecretValue(before, arg)
		}
	}
	return shown
}

// isReference reports whether a value is one variable, $(NAME), which may have the scheme of a header before it.
func isReference(value string) bool { return reference.MatchString(value) }
