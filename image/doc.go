// Command image makes shardctl's container image without Docker, without a base image and without a registry. It
// compiles the static binary for each platform and lays a few files round it. It writes an OCI layout or archives for
// docker load, or pushes to a registry.
//
// The same source, version and date give the same digest, on any machine with the same Go. Times come from the commit,
// entries are sorted, modes and owners are fixed, and nothing of the machine gets in.
package main
