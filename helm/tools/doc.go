// Package tools pins what checks the chart. Its go.mod names helm, helm-unittest, kubeconform and helm-docs as tools.
// The go.mod in kube-score names kube-score, which needs an older API of Kubernetes than the others build with.
// build.sh builds them, chart.sh runs them.
package tools
