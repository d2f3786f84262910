//go:build unix

package testmongo

import "crypto/rand"

// Options say what [Start] starts. The zero value is a replica set of three nodes.
type Options struct {
	// Nodes is the number of nodes; 0 means 3, or 1 with Standalone.
	Nodes int
	// Arbiters is how many of the nodes, the last ones, are arbiters: they vote and hold no data.
	Arbiters int
	// Standalone starts one mongod that is not a replica set: no change streams, no retryable writes.
	Standalone bool
	// Own asks for processes of one's own even when SHARDCTL_TEST_MONGODB_URI names a server: for tests that stop
	// nodes or set fail points. Standalone, Arbiters, Args, Auth, TLS and Host imply it.
	Own bool
	// Host is an address of this machine that the nodes listen on and know each other by, for clients elsewhere; empty:
	// 127.0.0.1. Anyone who reaches it can read and write, so it is for networks of its own.
	Host string
	// ExtraParams are further server parameters (--setParameter).
	ExtraParams map[string]string
	// Args are further arguments of each mongod, such as --auth.
	Args []string
	// Auth asks everybody for a password, the members of the set for a key among them. See ReplicaSet.RootURI and
	// URIAs.
	Auth bool
	// TLS has clients use TLS as well as plain connections, which this package uses. With TLS a client needs a
	// certificate. nil: plain connections alone.
	TLS *TLS
}

// TLS is what a mongod shows to clients, and whom it knows. Both are PEM.
type TLS struct {
	Identity    []byte // certificate and key of the server
	Authorities []byte // certificates that may have signed those of clients
}

// own says that these options need processes of one's own.
func (o Options) own() bool {
	return o.Own || o.Host != "" || o.Standalone || o.Arbiters > 0 || len(o.Args) > 0 || o.Auth || o.TLS != nil
}

func (o Options) nodes() int {
	if o.Nodes == 0 && !o.Standalone {
		return 3
	}
	return max(o.Nodes, 1)
}

// makeKey makes what the members of a set that asks for passwords know each other by.
func (o Options) makeKey() string {
	if !o.Auth {
		return ""
	}
	return rand.Text() + rand.Text()
}
