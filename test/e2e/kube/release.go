//go:build linux

package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Lease is T of all releases.
const Lease = 10 * time.Second

// HardDeadline is X for it: nothing of a task may be alive so long after the last heartbeat of its session.
const HardDeadline = Lease * 9 / 10

// Group is the group of all tasks of a release.
const Group = "topics"

// repository is the image's name on the nodes. It is in no registry: the archives are put there by KUBE_LOAD.
const repository = "shardctl.test/shardctl"

type object = map[string]any

// Release is one installation of the chart.
type Release struct {
	*Kube
	Name, Namespace string

	Tag      string
	StoreURI string
	Replicas int
	Cap      int
	Tasks    int
	// Settle is how long membership rests before keys move for balance; empty: the program's default.
	Settle string
	// Records is where its tasks write, for a volume of the nodes' file system; empty: they write into an emptyDir that
	// is not read.
	Records string
	// Odd are further tasks of the group.
	Odd []object
	// Extra are values of the chart that replace those below.
	Extra object
}

// values are the chart's.
func (r *Release) values() object {
	volume := object{"name": "records", "emptyDir": object{}}
	if r.Records != "" {
		volume = object{"name": "records", "hostPath": object{"path": r.Records, "type": "Directory"}}
	}
	tasks := []object{r.recorder(fmt.Sprintf("topic-{%03d..%03d}", 1, r.Tasks))}
	values := object{
		"replicaCount": r.Replicas,
		"image":        object{"repository": repository, "tag": r.Tag, "pullPolicy": "Never"},
		"store":        object{"uri": r.StoreURI},
		"config": object{
			"lease":  object{"duration": Lease.String()},
			"groups": []object{{"name": Group, "cap": r.Cap, "tasks": append(tasks, r.Odd...)}},
		},
		"extraVolumes":      []object{volume},
		"extraVolumeMounts": []object{{"name": "records", "mountPath": recordsInPod}},
		// A dead node's pods are replaced after these seconds, and those that the cluster takes to notice, instead of
		// after five minutes.
		"tolerations": []object{lostNode("unreachable"), lostNode("not-ready")},
	}
	if r.Settle != "" {
		values["config"].(object)["rebalance"] = object{"settle": r.Settle}
	}
	maps.Copy(values, r.Extra)
	return values
}

// Beside are values with which an application in an image of its own runs the tasks, with what the chart sets by
// itself. The application takes so long to start.
func (r *Release) Beside(start time.Duration) map[string]any {
	return object{
		"config": object{
			"lease": object{"duration": Lease.String()},
			"app":   object{"listen": "unix:/run/shardctl-app/socket/app.sock"},
			"groups": []object{{
				"name": Group, "cap": r.Cap,
				"tasks": []object{{"name": fmt.Sprintf("topic-{%03d..%03d}", 1, r.Tasks), "assign": object{}}},
			}},
		},
		"app": object{
			"image": object{"repository": "shardctl.test/application", "tag": "one", "pullPolicy": "Never"},
			"env": []object{
				{"name": "RECORD_DIR", "value": recordsInPod},
				{"name": "RECORD_PERIOD", "value": "0.05"},
				{"name": "START_DELAY", "value": fmt.Sprint(start.Seconds())},
				{"name": "SHARDCTL_INSTANCE", "valueFrom": object{"fieldRef": object{"fieldPath": "metadata.name"}}},
				{"name": "POD_UID", "valueFrom": object{"fieldRef": object{"fieldPath": "metadata.uid"}}},
			},
			"volumeMounts": []object{{"name": "records", "mountPath": recordsInPod}},
		},
	}
}

const recordsInPod = "/records"

// recorder is a task, or many by braces, that writes the time. It does so ten times less often than in scenarios on one
// machine. A hundred of them, five replicas, a database and a whole cluster may share two cores.
func (r *Release) recorder(name string) object {
	return object{
		"name": name,
		"exec": object{"command": []string{"/recorder", "--period", "50ms"}, "env": object{"RECORD_DIR": recordsInPod}},
	}
}

// lostNodeSeconds is longer than the scenario about a cable takes to plug it in again, from the moment the node is
// called lost.
const lostNodeSeconds = 20

func lostNode(how string) object {
	return object{
		"key": "node.kubernetes.io/" + how, "operator": "Exists", "effect": "NoExecute",
		"tolerationSeconds": lostNodeSeconds,
	}
}

// Install installs the chart and waits for nothing.
func (r *Release) Install(ctx context.Context) error {
	return r.helm(ctx, "install", r.Name, r.Chart)
}

// Upgrade brings the release to what its fields say now. With --wait among the arguments, Helm waits until the rollout
// is complete.
func (r *Release) Upgrade(ctx context.Context, args ...string) error {
	return r.helm(ctx, append([]string{"upgrade", r.Name, r.Chart}, args...)...)
}

// Template renders what Install would install in this cluster.
func (r *Release) Template(ctx context.Context, args ...string) (string, error) {
	var version struct {
		GitVersion string `json:"gitVersion"`
	}
	if err := r.Get(ctx, "/version", &version); err != nil {
		return "", err
	}
	return r.withValues(
		ctx, append([]string{"template", r.Name, r.Chart, "--kube-version", version.GitVersion}, args...)...,
	)
}

// Helm runs another command of helm in the release's namespace.
func (r *Release) Helm(ctx context.Context, args ...string) (string, error) {
	return run(ctx, r.Kube.Helm, append([]string{"--namespace", r.Namespace}, args...)...)
}

func (r *Release) helm(ctx context.Context, args ...string) error {
	_, err := r.withValues(ctx, args...)
	return err
}

func (r *Release) withValues(ctx context.Context, args ...string) (string, error) {
	text, err := json.Marshal(r.values())
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "shardctl-values-")
	if err != nil {
		return "", fmt.Errorf("values: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // it holds a copy
	file := filepath.Join(dir, "values.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return "", fmt.Errorf("values: %w", err)
	}
	return r.Helm(ctx, append(args, "--values", file)...)
}

// Kubectl runs kubectl in the release's namespace.
func (r *Release) Kubectl(ctx context.Context, args ...string) (string, error) {
	return r.Run(ctx, append([]string{"--namespace", r.Namespace}, args...)...)
}

// Pods are the release's replicas that are not going, in order of their names.
func (r *Release) Pods(ctx context.Context) ([]Pod, error) {
	pods, err := r.Kube.Pods(ctx, r.Namespace, "app.kubernetes.io/instance="+r.Name)
	pods = slices.DeleteFunc(pods, func(p Pod) bool {
		ended := p.Status.Phase == "Succeeded" || p.Status.Phase == "Failed" // those of `helm test`
		return ended || p.Metadata.DeletionTimestamp != nil
	})
	slices.SortFunc(pods, func(a, b Pod) int { return strings.Compare(a.Metadata.Name, b.Metadata.Name) })
	return pods, err
}

// ReadyPods are those that take part.
func (r *Release) ReadyPods(ctx context.Context) ([]Pod, error) {
	pods, err := r.Pods(ctx)
	return slices.DeleteFunc(pods, func(p Pod) bool { return !p.Ready() }), err
}

// Deployment is the release's.
func (r *Release) Deployment(ctx context.Context) (Deployment, error) {
	var list List[Deployment]
	path := "/apis/apps/v1/namespaces/" + r.Namespace + "/deployments?labelSelector=app.kubernetes.io/instance=" +
		r.Name
	if err := r.Get(ctx, path, &list); err != nil {
		return Deployment{}, err
	}
	if len(list.Items) != 1 {
		return Deployment{}, fmt.Errorf("%d Deployments of release %s, want 1", len(list.Items), r.Name)
	}
	return list.Items[0], nil
}

// ConfigMap is the release's configuration as the cluster holds it, and SetConfig what `kubectl edit` does to it.
func (r *Release) ConfigMap(ctx context.Context) (ConfigMap, error) {
	var m ConfigMap
	return m, r.Get(ctx, "/api/v1/namespaces/"+r.Namespace+"/configmaps/"+r.Name, &m)
}

// ConfigFile is the file of the ConfigMap that the chart makes of `config`.
const ConfigFile = "shardctl.yaml"

// SetConfig replaces the configuration behind Helm's back.
func (r *Release) SetConfig(ctx context.Context, text string) error {
	patch, err := json.Marshal(object{"data": object{ConfigFile: text}})
	if err != nil {
		return err
	}
	_, err = r.Kubectl(ctx, "patch", "configmap", r.Name, "--type=merge", "--patch", string(patch))
	return err
}

// Nudge has the kubelets look at the release's pods now. They bring a changed ConfigMap to a pod when its turn comes,
// about once a minute, or when the pod itself has changed.
func (r *Release) Nudge(ctx context.Context) error {
	for {
		out, err := r.Kubectl(
			ctx, "annotate", "pods", "--selector=app.kubernetes.io/name=shardctl", "--overwrite",
			fmt.Sprintf("shardctl.test/nudged=%d", time.Now().UnixNano()),
		)
		// kubectl lists the pods, and one may go before its turn has come
		if err == nil || !strings.Contains(out, "(NotFound)") {
			return err
		}
	}
}
