package mongo

import (
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

func isSRV(uri string) bool { return strings.HasPrefix(uri, schemeSRV+":") }

// checkURI says what is wrong with a URI, nothing when it looks right. The driver checks the rest, and quotes what it
// does not like.
func checkURI(uri string) string {
	scheme, rest, ok := strings.Cut(uri, "://")
	if !ok {
		scheme, _, _ = strings.Cut(uri, ":")
		return "must be " + scheme + "://HOST"
	}
	hosts := rest[:endOfHosts(rest)]
	if at := strings.LastIndexByte(hosts, '@'); at >= 0 {
		if _, err := url.PathUnescape(hosts[:at]); err != nil {
			return "has a user or password with a % that no two hexadecimal digits follow: write it as %25"
		}
		hosts = hosts[at+1:]
	} else if strings.Contains(rest, "@") && strings.Contains(hosts, ":") && !hostsOK(hosts, scheme) {
		return "has a user or password with a /, ? or @ in it: write these as %2F, %3F and %40"
	}
	if hosts == "" {
		return "names no host, must be " + scheme + "://HOST"
	}
	if !hostsOK(hosts, scheme) {
		if scheme == schemeSRV {
			return "has wrong hosts, must be mongodb+srv://HOST with one host and no port"
		}
		return "has wrong hosts, must be mongodb://HOST[:PORT][,HOST[:PORT]…], and what is special in a user or " +
			"password written with %"
	}
	return ""
}

func endOfHosts(rest string) int {
	if end := strings.IndexAny(rest, "/?"); end >= 0 {
		return end
	}
	return len(rest)
}

var hostName = regexp.MustCompile(`^([A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+(%25[^\]]+)?\]|[^:]*%2F[^:]*\.sock)$`)

func hostsOK(hosts, scheme string) bool {
	all := strings.Split(hosts, ",")
	if scheme == schemeSRV {
		return len(all) == 1 && hostName.MatchString(hosts)
	}
	for _, host := range all {
		if hostName.MatchString(host) {
			continue
		}
		name, port, err := net.SplitHostPort(host)
		if err != nil {
			return false
		}
		if strings.Contains(name, ":") {
			name = "[" + name + "]"
		}
		number, err := strconv.ParseUint(port, 10, 16)
		if err != nil || number == 0 || !hostName.MatchString(name) {
			return false
		}
	}
	return true
}

// databaseOf is the database that a URI names, if any.
func databaseOf(uri string) string {
	_, rest, _ := strings.Cut(uri, "://")
	if at := strings.LastIndexByte(rest[:endOfHosts(rest)], '@'); at >= 0 {
		rest = rest[at+1:]
	}
	_, rest, _ = strings.Cut(rest, "/")
	name, _, _ := strings.Cut(rest, "?")
	return name
}
