package redis

import (
	"fmt"
	"strconv"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/internal/storeuri"
)

// Schemes of a store's URI.
const (
	scheme         = "redis"
	schemeTLS      = "rediss"
	schemeSentinel = "redis+sentinel"
	schemeCluster  = "redis+cluster"
)

const (
	portRedis    = 6379
	portSentinel = 26379

	paramNodes            = "nodes"
	paramDB               = "db"
	paramSentinelUser     = "sentinelUser"
	paramSentinelPassword = "sentinelPassword"

	maxNodes = 99
	maxDB    = 1<<31 - 1
)

// target is what a URI and the settings beside it say.
type target struct {
	hosts            []string // of Redis, of Sentinels, or of nodes of a cluster
	master           string   // the name that Sentinels know the master by; empty: no Sentinels
	cluster          bool
	user, password   string
	sentinelUser     string
	sentinelPassword string
	db               int
	nodes            int // how many servers hold the data, the master among them
	tls              storeuri.TLSFiles
}

func secrets() storeuri.Secrets { return storeuri.Secrets{"sentinelpassword"} }

func form(of string) string {
	switch of {
	case schemeSentinel:
		return of + "://HOST[,HOST…]/MASTERNAME?nodes=N"
	case schemeCluster:
		return of + "://HOST[,HOST…]?nodes=N"
	}
	return of + "://HOST"
}

// parseTarget reads a URI. Errors are a [store.FieldError].
func parseTarget(c store.Config) (target, error) {
	syntax := storeuri.Syntax{DefaultPort: portRedis, OneHost: true, Params: []string{paramNodes, paramDB}, TLS: true}
	scheme := schemeOf(c.URI)
	switch scheme {
	case schemeSentinel:
		syntax.DefaultPort, syntax.OneHost = portSentinel, false
		syntax.Params = append(syntax.Params, paramSentinelUser, paramSentinelPassword)
	case schemeCluster:
		syntax.OneHost = false
	}
	u, err := syntax.Parse(c.URI)
	if err != nil {
		return target{}, err
	}
	t := target{
		hosts: u.Hosts, cluster: scheme == schemeCluster, user: u.User, password: u.Password,
		sentinelUser: u.Param(paramSentinelUser), sentinelPassword: u.Param(paramSentinelPassword),
	}
	if t.tls, err = u.TLS(scheme == schemeTLS); err != nil {
		return target{}, err
	}
	path, err := t.setMaster(scheme, u)
	if err != nil {
		return target{}, err
	}
	if err := t.setNodes(scheme, u); err != nil {
		return target{}, err
	}
	return t, t.setDB(u, path, c.Database)
}

// setMaster takes the master's name from the path. What is left of the path is the database's number.
func (t *target) setMaster(scheme string, u storeuri.URI) (path string, err error) {
	if scheme != schemeSentinel {
		return u.Path, nil
	}
	if u.Path == "" {
		return "", wrongURI("names no master, must be " + form(scheme))
	}
	t.master = u.Path
	return "", nil
}

// setNodes: one server alone needs no number. Where there are replicas it cannot be guessed, and majorities hang on it.
func (t *target) setNodes(scheme string, u storeuri.URI) (err error) {
	alone := scheme != schemeSentinel && scheme != schemeCluster
	if !alone && u.Param(paramNodes) == "" {
		return wrongURI("says not how many Redis servers hold the data, the master among them: add nodes=N, as in " +
			form(scheme))
	}
	t.nodes, err = u.Whole(paramNodes, 1, 1, maxNodes)
	return err
}

// setDB takes the number of the database from the settings, the path or the parameter, which must not differ.
func (t *target) setDB(u storeuri.URI, path, database string) error {
	chosen := ""
	for _, from := range []struct{ field, text string }{
		{"database", database}, {"uri", path}, {"uri", u.Param(paramDB)},
	} {
		if from.text == "" {
			continue
		}
		n, err := strconv.Atoi(from.text)
		if err != nil || n < 0 || n > maxDB {
			return &store.FieldError{Field: from.field, Text: "must name Redis's database by its number, such as 0"}
		}
		if chosen != "" && chosen != from.text {
			return wrongURI("names another database than the settings, or two of them")
		}
		chosen, t.db = from.text, n
	}
	if t.cluster && t.db != 0 {
		return wrongURI(fmt.Sprintf("names database %d, and a Redis cluster has database 0 only", t.db))
	}
	return nil
}

func wrongURI(text string) error { return &store.FieldError{Field: "uri", Text: text} }
