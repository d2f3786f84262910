// Command image makes shardctl's container image without Docker, without a base image and without a registry: it
// compiles the static binary for each platform, lays a few files round it and writes an OCI layout, archives for docker
// load, or a registry.
//
// The same source, version and date give the same digest, on any machine with the same Go: times come from the commit,
// entries are sorted, modes and owners are fixed, and nothing of the machine gets in.
package main
