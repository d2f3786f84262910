// Package kubescore pins kube-score, which does not build beside the other tools: it imports versions of the
// autoscaling API that newer modules of Kubernetes have no more.
package kubescore
