// Package kube holds the end-to-end scenarios of the Helm chart and the image on a real Kubernetes cluster. They do
// what platform engineers do to a release: install, upgrade, roll back, scale, edit the list. They also do what happens
// to its pods and nodes: deleted, killed, out of memory, powered off, cut off, drained.
//
// The judge is the one of all scenarios. The tasks write the time into files of a directory that all nodes share with
// this test. So package history can say afterwards what ran where and when, also what ran on a node that died or could
// not be reached.
//
// The scenarios know nothing of how the cluster came about. They take it from KUBECONFIG, and do to nodes what no API
// offers through a program that the environment names. README.md says how, and `make cluster` finds a cluster by itself.
package kube
