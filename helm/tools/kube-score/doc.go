// Package kubescore pins kube-score, which does not build with the other tools. It imports versions of the autoscaling
// API that newer modules of Kubernetes have no more.
package kubescore
