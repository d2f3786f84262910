package config

import (
	"cmp"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

const storeSchemes = "mongodb://HOST…, mongodb+srv://HOST or sqlite:PATH"

// store reads where locks are kept. Its errors never quote the URI: it may hold a password, also where it is wrong.
func (l *loader) store(root *node) Store {
	n := root.at("store", "uri")
	uri, ok := l.value(n)
	if !ok {
		if n == nil {
			at := root
			if store := root.get("store"); store != nil {
				at = store
			}
			if at.bad || l.partial {
				return Store{}
			}
			l.addAt(at, "store.uri", "is required: %s", storeSchemes)
		}
		return Store{}
	}
	database := root.at("store", "database")
	s := Store{URI: uri, Database: l.text(database, "")}
	switch {
	case uri == "":
		l.add(n, "is required: %s", storeSchemes)
	case strings.HasPrefix(uri, "mongodb://"), strings.HasPrefix(uri, "mongodb+srv://"):
		if wrong := mongoURI(uri); wrong != "" {
			l.add(n, "%s", wrong)
			return s
		}
		s.Database = cmp.Or(s.Database, mongoDatabase(uri), "shardctl")
		if !databaseName.MatchString(s.Database) {
			// Not quoted where it is the URI's.
			l.add(cmp.Or(database, n), "names a wrong database, must be at most 63 characters without %s and blanks", `/ \ . " $ * < > : | ?`)
		}
	case strings.HasPrefix(uri, "sqlite:"):
		if path := strings.TrimPrefix(uri, "sqlite:"); path == "" || strings.HasPrefix(path, ":memory:") {
			l.add(n, "names no file, must be sqlite:PATH")
		}
	default:
		l.add(n, "does not begin with a known scheme, must be %s", storeSchemes)
	}
	return s
}

var databaseName = regexp.MustCompile(`^[^/\\. "$*<>:|?\x00]{1,63}$`)

// mongoURI says what is wrong with a MongoDB URI, nothing when it looks right. The driver checks the rest.
func mongoURI(uri string) string {
	scheme, rest, _ := strings.Cut(uri, "://")
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
		if scheme == "mongodb+srv" {
			return "has wrong hosts, must be mongodb+srv://HOST with one host and no port"
		}
		return "has wrong hosts, must be mongodb://HOST[:PORT][,HOST[:PORT]…], and what is special in a user or password written with %"
	}
	return ""
}

func endOfHosts(rest string) int {
	if end := strings.IndexAny(rest, "/?"); end >= 0 {
		return end
	}
	return len(rest)
}

var mongoHost = regexp.MustCompile(`^([A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+(%25[^\]]+)?\]|[^:]*%2F[^:]*\.sock)$`)

func hostsOK(hosts, scheme string) bool {
	all := strings.Split(hosts, ",")
	if scheme == "mongodb+srv" {
		return len(all) == 1 && mongoHost.MatchString(hosts)
	}
	for _, host := range all {
		if mongoHost.MatchString(host) {
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
		if err != nil || number == 0 || !mongoHost.MatchString(name) {
			return false
		}
	}
	return true
}

// mongoDatabase is the database that a URI names, if any.
func mongoDatabase(uri string) string {
	_, rest, _ := strings.Cut(uri, "://")
	if at := strings.LastIndexByte(rest[:endOfHosts(rest)], '@'); at >= 0 {
		rest = rest[at+1:]
	}
	_, rest, _ = strings.Cut(rest, "/")
	name, _, _ := strings.Cut(rest, "?")
	return name
}
