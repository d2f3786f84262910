//go:build linux

package kube

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Environment is what the scenarios know of the cluster and the machine. README.md describes each variable.
type Environment struct {
	Kubectl, Helm string
	Chart         string // directory of the chart
	Images        string // directory with the archives that images.sh made
	Load          string // program that puts an image archive on all nodes
	NodeCtl       string // program that does to nodes what no API offers
	Records       string // directory that is the same on all nodes and here
	MongoDB       string // URI of a replica set that pods reach; empty: one is started at HostAddress
	HostAddress   string // address of this machine that pods reach
	FaultNodes    []string
}

// EnvWanted is set by `make kube`: then a cluster must be there. Without it and without KUBECONFIG the scenarios are
// left out, so that `go test ./...` works on a laptop.
const EnvWanted = "KUBE_SCENARIOS"

// ReadEnvironment reports all that is missing at once.
func ReadEnvironment() (Environment, error) {
	var problems []error
	env := Environment{
		Chart: filepath.Join("..", "..", "..", "helm", "shardctl"), Images: os.Getenv("KUBE_IMAGES"),
		Records: os.Getenv("KUBE_RECORDS"),
		MongoDB: os.Getenv("KUBE_MONGODB_URI"), HostAddress: os.Getenv("KUBE_HOST_ADDRESS"),
		FaultNodes: strings.Fields(os.Getenv("KUBE_FAULT_NODES")),
	}
	if os.Getenv("KUBECONFIG") == "" {
		problems = append(problems, errors.New(
			"KUBECONFIG is not set: name the kubeconfig of a cluster of two nodes or more, or let `make kube` find one",
		))
	}
	for _, program := range []struct {
		variable, fallback, what string
		into                     *string
	}{
		{"KUBECTL", "kubectl", "kubectl", &env.Kubectl},
		{"HELM", "helm", "Helm", &env.Helm},
		{"KUBE_LOAD", "", "a program that puts the image archive it is given on all nodes", &env.Load},
		{"KUBE_NODECTL", "", "a program that takes cut|heal|off|on NODE and sh NODE COMMAND…", &env.NodeCtl},
	} {
		name := os.Getenv(program.variable)
		if name == "" {
			name = program.fallback
		}
		path, err := exec.LookPath(name)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s must name %s: %w", program.variable, program.what, err))
		}
		*program.into = path
	}
	for variable, dir := range map[string]string{"KUBE_IMAGES": env.Images, "KUBE_RECORDS": env.Records} {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			problems = append(problems, fmt.Errorf("%s=%q is no directory", variable, dir))
		}
	}
	if env.MongoDB == "" && env.HostAddress == "" {
		problems = append(problems, errors.New("set KUBE_MONGODB_URI to a replica set that pods reach, or "+
			"KUBE_HOST_ADDRESS to an address of this machine that they reach"))
	}
	if len(problems) > 0 {
		return env, fmt.Errorf(
			"the scenarios of the chart need a cluster and more (test/e2e/kube/README.md):\n%w",
			errors.Join(problems...),
		)
	}
	return env, nil
}
