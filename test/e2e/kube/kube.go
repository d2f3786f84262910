//go:build linux

package kube

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/shardctl/shardctl/internal/process"
	"github.com/shardctl/shardctl/test/e2e/harness"
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
			"KUBECONFIG is not set: name the kubeconfig of a cluster of two nodes or more, or let `make cluster` find one",
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

// requestTimeout bounds one request. The API server of a test cluster shares two cores with everything else.
const requestTimeout = 10 * time.Second

// Kube is the cluster. It uses kubectl and helm for what people do with them, and plain HTTP through `kubectl proxy`
// for what scenarios look at again and again.
type Kube struct {
	Environment
	base string // of the API, through the proxy
	http *http.Client
}

// Connect starts a proxy to the cluster of KUBECONFIG. It ends with stop, or with this process.
func Connect(ctx context.Context, env Environment) (_ *Kube, stop func(), err error) {
	cmd := exec.CommandContext(context.WithoutCancel(ctx), env.Kubectl, "proxy", "--port=0", "--address=127.0.0.1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, fmt.Errorf("kubectl proxy: %w", err)
	}
	var complaint strings.Builder
	cmd.Stderr = &complaint
	thread := process.NewThread()
	if err := thread.Start(cmd); err != nil {
		thread.Close()
		return nil, nil, fmt.Errorf("kubectl proxy: %w", err)
	}
	stop = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		thread.Close()
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	_, address, ok := strings.Cut(strings.TrimSpace(line), "Starting to serve on ")
	if err != nil || !ok {
		stop()
		return nil, nil, fmt.Errorf("kubectl proxy says %q: %s", line, complaint.String())
	}
	k := &Kube{Environment: env, base: "http://" + address, http: &http.Client{Timeout: requestTimeout}}
	return k, stop, nil
}

// Get reads an object or a list.
func (k *Kube) Get(ctx context.Context, path string, into any) error {
	body, err := k.raw(ctx, path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func (k *Kube) raw(ctx context.Context, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, k.base+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := k.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: status %d: %.300s", path, resp.StatusCode, body)
	}
	return body, nil
}

// Pods are those with all these labels, the ones that are going included.
func (k *Kube) Pods(ctx context.Context, namespace, selector string) ([]Pod, error) {
	var list List[Pod]
	err := k.Get(ctx, "/api/v1/namespaces/"+namespace+"/pods?labelSelector="+url.QueryEscape(selector), &list)
	return list.Items, err
}

// Nodes are all nodes.
func (k *Kube) Nodes(ctx context.Context) ([]Node, error) {
	var list List[Node]
	err := k.Get(ctx, "/api/v1/nodes", &list)
	return list.Items, err
}

// Replica reads the HTTP interface of a pod, through the API server: the test need not reach the pod network.
func (k *Kube) Replica(p Pod) *harness.Client {
	at := fmt.Sprintf(
		"%s/api/v1/namespaces/%s/pods/%s:8080/proxy", strings.TrimPrefix(k.base, "http://"), p.Metadata.Namespace,
		p.Metadata.Name,
	)
	return harness.ClientAt(at, "")
}

// Run runs kubectl and returns what it printed.
func (k *Kube) Run(ctx context.Context, args ...string) (string, error) {
	return run(ctx, k.Kubectl, args...)
}

// Apply creates or changes an object.
func (k *Kube) Apply(ctx context.Context, object map[string]any) error {
	text, err := json.Marshal(object)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, k.Kubectl, "apply", "-f", "-")
	cmd.Stdin = strings.NewReader(string(text))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("kubectl apply: %w: %s", err, out)
	}
	return nil
}

// errProgram is a program that ended with another status than 0.
var errProgram = errors.New("failed")

// run runs a program and returns all that it printed, also when it fails.
func run(ctx context.Context, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) && ctx.Err() == nil {
		return string(out), fmt.Errorf(
			"%s %s: %w with status %d: %s", program, strings.Join(args, " "), errProgram, exit.ExitCode(), out,
		)
	}
	if err != nil {
		return string(out), fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

// LoadImage puts an image on all nodes.
func (k *Kube) LoadImage(ctx context.Context, archive string) error {
	_, err := run(ctx, k.Load, archive)
	return err
}
