package storeuri

import (
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/shardctl/shardctl/pkg/store"
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

// Parse reads a URI. Errors are a [store.FieldError].
func (s Syntax) Parse(uri string) (URI, error) {
	u, wrong := s.parse(uri)
	if wrong != "" {
		return URI{}, &store.FieldError{Field: "uri", Text: wrong}
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
// [store.FieldError].
func (u URI) Whole(name string, none, low, high int) (int, error) {
	text := u.params.Get(name)
	if text == "" {
		return none, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < low || n > high {
		return 0, &store.FieldError{
			Field: "uri", Text: fmt.Sprintf("has the parameter %s=%.40q, must be %d to %d", name, text, low, high),
		}
	}
	return n, nil
}

// Bool is a parameter that is true or false; false where it is left out. Errors are a [store.FieldError].
func (u URI) Bool(name string) (bool, error) {
	switch text := u.params.Get(name); text {
	case "", "false":
		return false, nil
	case "true":
		return true, nil
	default:
		return false, &store.FieldError{
			Field: "uri", Text: fmt.Sprintf("has the parameter %s=%.40q, must be true or false", name, text),
		}
	}
}
