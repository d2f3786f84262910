// Package storeuri reads the URIs by which settings name a database of several servers, for adapters whose drivers take
// no URI:
//
//	SCHEME://[USER[:PASSWORD]@]HOST[:PORT][,HOST[:PORT]…][/PATH][?NAME=VALUE[&NAME=VALUE…]]
//
// A URI may hold a password, also where it is wrong. So no error of this package quotes one.
package storeuri

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shardctl/shardctl/pkg/store/driver"
)

// URI is what a URI says. Its texts are decoded.
type URI struct {
	Scheme         string
	User, Password string
	Hosts          []string // HOST:PORT, in their order; IPv6 addresses in brackets
	Path           string   // without the slash before it
	params         url.Values
}

// Syntax is what a scheme allows.
type Syntax struct {
	DefaultPort int
	OneHost     bool     // only one host may be named
	Params      []string // names of the parameters there are, those of TLS left out
	TLS         bool     // parameters of [TLSFiles] are there as well
}

// Parse reads a URI. Errors are a [driver.FieldError].
func (s Syntax) Parse(uri string) (URI, error) {
	u, wrong := s.parse(uri)
	if wrong != "" {
		return URI{}, &driver.FieldError{Field: "uri", Text: wrong}
	}
	return u, nil
}

func (s Syntax) parse(uri string) (u URI, wrong string) {
	scheme, rest, ok := strings.Cut(uri, "://")
	if !ok {
		scheme, _, _ = strings.Cut(uri, ":")
		return u, "must be " + scheme + "://HOST"
	}
	u.Scheme = scheme
	rest, query, _ := strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(rest, "/")
	if !strings.Contains(authority, "@") && strings.ContainsAny(rest+"?"+query, "@") && !hostsOK(authority) {
		return u, "has a user or password with a /, ? or @ in it: write these as %2F, %3F and %40"
	}
	if wrong = u.setUser(&authority); wrong != "" {
		return u, wrong
	}
	if wrong = s.setHosts(&u, authority); wrong != "" {
		return u, wrong
	}
	var err error
	if u.Path, err = url.PathUnescape(path); err != nil {
		return u, "has a path with a % that no two hexadecimal digits follow: write it as %25"
	}
	if u.params, err = url.ParseQuery(query); err != nil {
		return u, "has parameters that are not NAME=VALUE joined by &, with what is special written with %"
	}
	return u, s.checkParams(u.params)
}

// setUser takes USER:PASSWORD@ off an authority. The last @ ends it.
func (u *URI) setUser(authority *string) (wrong string) {
	at := strings.LastIndexByte(*authority, '@')
	if at < 0 {
		return ""
	}
	user, password, _ := strings.Cut((*authority)[:at], ":")
	*authority = (*authority)[at+1:]
	var errUser, errPassword error
	u.User, errUser = url.PathUnescape(user)
	u.Password, errPassword = url.PathUnescape(password)
	if errUser != nil || errPassword != nil {
		return "has a user or password with a % that no two hexadecimal digits follow: write it as %25"
	}
	return ""
}

func (s Syntax) setHosts(u *URI, authority string) (wrong string) {
	form := u.Scheme + "://HOST[:PORT]"
	if !s.OneHost {
		form += "[,HOST[:PORT]…]"
	}
	if authority == "" {
		return "names no host, must be " + form
	}
	if !hostsOK(authority) {
		return "has wrong hosts, must be " + form + ", and what is special in a user or password written with %"
	}
	for host := range strings.SplitSeq(authority, ",") {
		name, port := split(host)
		if port == "" {
			port = strconv.Itoa(s.DefaultPort)
		}
		full := net.JoinHostPort(name, port)
		if slices.Contains(u.Hosts, full) {
			return "names " + full + " twice"
		}
		u.Hosts = append(u.Hosts, full)
	}
	if s.OneHost && len(u.Hosts) > 1 {
		return fmt.Sprintf("names %d hosts, must be %s", len(u.Hosts), form)
	}
	return ""
}

var hostName = regexp.MustCompile(`^([A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?$`)

func hostsOK(authority string) bool {
	for host := range strings.SplitSeq(authority, ",") {
		if !hostName.MatchString(host) {
			return false
		}
		if _, port := split(host); port != "" {
			if number, err := strconv.ParseUint(port, 10, 16); err != nil || number == 0 {
				return false
			}
		}
	}
	return true
}

// split is the name, without brackets, and the port, if any.
func split(host string) (name, port string) {
	if at := strings.LastIndexByte(host, ':'); at > strings.LastIndexByte(host, ']') {
		host, port = host[:at], host[at+1:]
	}
	return strings.Trim(host, "[]"), port
}

func (s Syntax) checkParams(params url.Values) (wrong string) {
	known := slices.Clone(s.Params)
	if s.TLS {
		known = append(known, paramTLS, paramCAFile, paramCertFile, paramKeyFile)
	}
	slices.Sort(known)
	for name, values := range params {
		if !slices.Contains(known, name) {
			return fmt.Sprintf("has a parameter %q, which is none of %s", name, strings.Join(known, ", "))
		}
		if len(values) > 1 {
			return fmt.Sprintf("has the parameter %s %d times", name, len(values))
		}
	}
	return ""
}

// Param is a parameter's value; empty where it is left out.
func (u URI) Param(name string) string { return u.params.Get(name) }

// Whole is a parameter that is a whole number from low to high, or none where it is left out. Errors are a
// [driver.FieldError].
func (u URI) Whole(name string, none, low, high int) (int, error) {
	text := u.params.Get(name)
	if text == "" {
		return none, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < low || n > high {
		return 0, &driver.FieldError{
			Field: "uri", Text: fmt.Sprintf("has the parameter %s=%.40q, must be %d to %d", name, text, low, high),
		}
	}
	return n, nil
}

// ParamPoll is how often watches look for changes, in ms.
const (
	ParamPoll        = "pollMillis"
	minPoll, maxPoll = 5, 60_000
)

// Poll is [ParamPoll]; 0 where it is left out. Errors are a [driver.FieldError].
func (u URI) Poll() (time.Duration, error) {
	ms, err := u.Whole(ParamPoll, 0, minPoll, maxPoll)
	return time.Duration(ms) * time.Millisecond, err
}

// Bool is a parameter that is true or false; false where it is left out. Errors are a [driver.FieldError].
func (u URI) Bool(name string) (bool, error) {
	switch text := u.params.Get(name); text {
	case "", "false":
		return false, nil
	case "true":
		return true, nil
	default:
		return false, &driver.FieldError{
			Field: "uri", Text: fmt.Sprintf("has the parameter %s=%.40q, must be true or false", name, text),
		}
	}
}

// redacted stands where a secret was.
const redacted = "xxxxx"

// Secrets are the parameters of a scheme's URIs that carry secrets, in lower case.
type Secrets []string

// Redact returns a URI that can be shown: its password and other secrets are replaced by xxxxx. It takes URIs that are
// wrong as well, and then rather hides too much.
func (p Secrets) Redact(uri string) string {
	scheme, rest, found := strings.Cut(uri, "://")
	if !found {
		scheme, rest = "", uri
	} else {
		scheme += "://"
	}
	if before, query, has := strings.Cut(rest, "?"); has && strings.Contains(query, "@") && p.hasIn(query) {
		// Is the @ in a parameter, or the ? in a password? Nothing of either is shown.
		host, _, more := strings.Cut(before, ":")
		if more {
			host += ":" + redacted
		}
		return scheme + host + "?" + redacted
	}
	user, _, rest := splitUser(rest)
	rest, query, hasQuery := strings.Cut(rest, "?")
	if hasQuery {
		rest += "?" + p.redactQuery(query)
	}
	return scheme + user + rest
}

// splitUser cuts USER:PASSWORD@ off. The last @ ends it: a password with a bare @ or / in it makes the URI wrong, and
// must not be shown for that.
func splitUser(rest string) (user, password, after string) {
	at := strings.LastIndexByte(rest, '@')
	if at < 0 {
		return "", "", rest
	}
	user, password, has := strings.Cut(rest[:at], ":")
	if has {
		user += ":" + redacted
	}
	return user + "@", password, rest[at+1:]
}

func (p Secrets) redactQuery(query string) string {
	params := strings.Split(query, "&")
	for i, param := range params {
		name, _, _ := strings.Cut(param, "=")
		if p.has(name) {
			params[i] = name + "=" + redacted
		}
	}
	return strings.Join(params, "&")
}

// hasIn reports whether one of the parameters carries a secret.
func (p Secrets) hasIn(query string) bool {
	return slices.ContainsFunc(strings.Split(query, "&"), func(param string) bool {
		name, _, _ := strings.Cut(param, "=")
		return p.has(name)
	})
}

func (p Secrets) has(name string) bool { return slices.Contains(p, strings.ToLower(name)) }

// Of lists what of a URI must not appear in any text, as written and as decoded.
func (p Secrets) Of(uri string) []string {
	_, rest, found := strings.Cut(uri, "://")
	if !found {
		rest = uri
	}
	_, password, after := splitUser(rest)
	_, query, _ := strings.Cut(after, "?")
	all := append([]string{password}, p.inQuery(query)...)
	for _, s := range all {
		if plain, err := url.PathUnescape(s); err == nil && plain != s {
			all = append(all, plain)
		}
	}
	return all
}

// inQuery are the values of the parameters that carry secrets, as written.
func (p Secrets) inQuery(query string) (all []string) {
	for param := range strings.SplitSeq(query, "&") {
		if name, value, _ := strings.Cut(param, "="); p.has(name) {
			all = append(all, value)
		}
	}
	return all
}

// login divides a URI that was parsed into what it names, and who logs in: user, password and other secrets.
func (p Secrets) login(uri string) (place string, who []string) {
	scheme, rest, _ := strings.Cut(uri, "://")
	rest, query, _ := strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(rest, "/")
	user, hosts := "", authority
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		user, hosts = authority[:at], authority[at+1:]
	}
	user, password, _ := strings.Cut(user, ":")
	return scheme + "://" + hosts + "/" + path + "?" + p.redactQuery(query),
		append([]string{user, password}, p.inQuery(query)...)
}

// Scrub replaces secrets in a text.
func Scrub(text string, secrets []string) string {
	for _, s := range secrets {
		if s != "" {
			quoted := strconv.Quote(s) // as %q of a driver's error has it
			text = strings.ReplaceAll(strings.ReplaceAll(text, s, redacted), quoted[1:len(quoted)-1], redacted)
		}
	}
	return text
}

// Parameters of TLS.
const (
	paramTLS      = "tls"         // true or false
	paramCAFile   = "tlsCAFile"   // PEM: the authorities to trust; left out: the system's
	paramCertFile = "tlsCertFile" // PEM: this client's certificate, if it has one
	paramKeyFile  = "tlsKeyFile"  // PEM: its key
)

// TLSFiles are the files by which connections are secured.
type TLSFiles struct {
	On                        bool
	CAFile, CertFile, KeyFile string
}

// TLS are a URI's files. It is on by tls=true, by any file, and where always says that the scheme asks for it. Errors
// are a [driver.FieldError]. No file is read.
func (u URI) TLS(always bool) (TLSFiles, error) {
	on, err := u.Bool(paramTLS)
	if err != nil {
		return TLSFiles{}, err
	}
	t := TLSFiles{
		On: on || always, CAFile: u.Param(paramCAFile), CertFile: u.Param(paramCertFile),
		KeyFile: u.Param(paramKeyFile),
	}
	refuse := func(text string) (TLSFiles, error) {
		return TLSFiles{}, &driver.FieldError{Field: "uri", Text: text}
	}
	files := t.CAFile != "" || t.CertFile != "" || t.KeyFile != ""
	switch off := u.Param(paramTLS) == "false"; {
	case off && always:
		return refuse("has the parameter tls=false, which its scheme forbids")
	case off && files:
		return refuse("has the parameter tls=false beside files of TLS")
	case t.CertFile != "" && t.KeyFile == "":
		return refuse("has the parameter tlsCertFile, which needs tlsKeyFile")
	case t.KeyFile != "" && t.CertFile == "":
		return refuse("has the parameter tlsKeyFile, which needs tlsCertFile")
	}
	t.On = t.On || files
	return t, nil
}

// Config reads the files as they are now; nil where TLS is off. Files may be renewed while a store is open, so it is
// called for each connection (see [Source]). Errors wrap [driver.ErrInvalid].
func (t TLSFiles) Config() (*tls.Config, error) {
	if !t.On {
		return nil, nil //nolint:nilnil // no TLS is what drivers take nil for
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("%s: %w: %w", paramCAFile, driver.ErrInvalid, err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s: %w: %s holds no PEM certificate", paramCAFile, driver.ErrInvalid, t.CAFile)
		}
	}
	if t.CertFile == "" {
		return config, nil
	}
	pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("%w: %s, %s: %w", driver.ErrInvalid, paramCertFile, paramKeyFile, err)
	}
	// Config.Certificates would send none to a server that names other authorities, which it may know all the same.
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	return config, nil
}

// Untrusted says whether the server's certificate was refused, as nothing but another set-up changes.
func Untrusted(err error) bool {
	_, verification := errors.AsType[*tls.CertificateVerificationError](err)
	_, authority := errors.AsType[x509.UnknownAuthorityError](err)
	_, host := errors.AsType[x509.HostnameError](err)
	return verification || authority || host
}
