// Package etcdserver pins etcd's server, in a module of its own: who imports shardctl does not import it. The package
// beside it builds it for tests.
package etcdserver
