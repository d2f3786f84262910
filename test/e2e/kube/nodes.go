//go:build linux

package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/shardctl/shardctl/test/e2e/history"
)

// Power and cables of nodes: what no API offers.

// Off powers a node off: everything on it ends at once.
func (k *Kube) Off(ctx context.Context, node string) (history.Instant, error) {
	return k.nodeCtl(ctx, "off", node)
}

// On powers it on again.
func (k *Kube) On(ctx context.Context, node string) error {
	_, err := k.nodeCtl(ctx, "on", node)
	return err
}

// Cut pulls a node's network cable: kubelet, pods and all reach nothing, and go on.
func (k *Kube) Cut(ctx context.Context, node string) (history.Instant, error) {
	return k.nodeCtl(ctx, "cut", node)
}

// Heal plugs it in again.
func (k *Kube) Heal(ctx context.Context, node string) (history.Instant, error) {
	return k.nodeCtl(ctx, "heal", node)
}

// nodeCtl returns the instant just before it began.
func (k *Kube) nodeCtl(ctx context.Context, verb, node string, more ...string) (history.Instant, error) {
	at := history.Now()
	_, err := run(ctx, k.NodeCtl, append([]string{verb, node}, more...)...)
	return at, err
}

// Part of a replica, as in the scenarios without Kubernetes.
type Part string

// The processes of a replica, and the one beside it.
const (
	Guard  Part = "guard" // PID 1 of the container
	Worker Part = "worker"
	// Application is that of [Release.Beside], in a container of its own.
	Application Part = "application"
)

// kill is run on the node, where the processes of its containers have other numbers than inside. $1 is the pod's UID,
// which the chart, or the release, puts into the environment. Guard and worker run the same program, and the worker's
// parent is the guard.
const kill = `
for dir in /proc/[0-9]*; do
  tr '\0' '\n' <$dir/environ 2>/dev/null | grep -qx "POD_UID=$1" || continue
  case $(tr '\0' ' ' <$dir/cmdline 2>/dev/null) in
  */application.py*) application=${dir#/proc/}; continue ;;
  /shardctl*) ;;
  *) continue ;;
  esac
  number=$(sed -n 's/^NSpid:.*[[:space:]]\([0-9]*\)$/\1/p' $dir/status)
  if [ "$number" = 1 ]; then guard=${dir#/proc/}; else worker=${dir#/proc/}; fi
done
eval pid=\$$2
[ -n "$pid" ] || { echo "no $2 of pod $1 on this node"; exit 1; }
kill -9 $pid`

// KillPart sends SIGKILL to a process of a pod, from its node: the image has neither shell nor kill.
func (k *Kube) KillPart(ctx context.Context, p Pod, part Part) (history.Instant, error) {
	return k.nodeCtl(ctx, "sh", p.Spec.NodeName, "sh", "-c", kill, "kill", p.Metadata.UID, string(part))
}

// CutStore has nothing that these pods send reach the store, by rules for their addresses on their nodes. What the
// kubelet and others send goes on.
func (k *Kube) CutStore(ctx context.Context, storeURI string, pods ...Pod) (history.Instant, error) {
	at := history.Now()
	return at, k.storeRules(ctx, "add", storeURI, pods)
}

// HealStore takes the rules back.
func (k *Kube) HealStore(ctx context.Context, storeURI string, pods ...Pod) (history.Instant, error) {
	at := history.Now()
	return at, k.storeRules(ctx, "del", storeURI, pods)
}

func (k *Kube) storeRules(ctx context.Context, what, storeURI string, pods []Pod) error {
	addresses, err := storeAddresses(storeURI)
	if err != nil {
		return err
	}
	for _, p := range pods {
		for _, a := range addresses {
			// By port: others on the store's machine, such as the API server, are to be reached.
			_, err := k.nodeCtl(ctx, "sh", p.Spec.NodeName, "ip", "rule", what, "from", p.Status.PodIP, "to", a.host,
				"ipproto", "tcp", "dport", a.port, "priority", "100", "blackhole")
			if err != nil {
				return err
			}
		}
	}
	return nil
}

type address struct{ host, port string }

// storeAddresses are those of a MongoDB URI that names its hosts by number.
func storeAddresses(uri string) ([]address, error) {
	_, rest, _ := strings.Cut(uri, "://")
	rest, _, _ = strings.Cut(rest, "/")
	var all []address
	for member := range strings.SplitSeq(rest[strings.LastIndex(rest, "@")+1:], ",") {
		host, port, err := net.SplitHostPort(member)
		if err != nil || net.ParseIP(host) == nil {
			return nil, fmt.Errorf("store %s: want ADDRESS:PORT to cut it off", member)
		}
		all = append(all, address{host, port})
	}
	return all, nil
}

// Victims are the nodes whose power and cables scenarios may touch, those with most pods of the release first. They are
// those of KUBE_FAULT_NODES, else all without the control plane.
func (r *Release) Victims(ctx context.Context) ([]Victim, error) {
	pods, err := r.ReadyPods(ctx)
	if err != nil {
		return nil, err
	}
	nodes, err := r.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	var victims []Victim
	for _, n := range nodes {
		_, control := n.Metadata.Labels["node-role.kubernetes.io/control-plane"]
		if len(r.FaultNodes) > 0 && !slices.Contains(r.FaultNodes, n.Metadata.Name) || len(r.FaultNodes) == 0 &&
			control {
			continue
		}
		on := slices.DeleteFunc(slices.Clone(pods), func(p Pod) bool { return p.Spec.NodeName != n.Metadata.Name })
		if len(on) > 0 {
			victims = append(victims, Victim{Node: n.Metadata.Name, Pods: on})
		}
	}
	if len(victims) == 0 {
		return nil, errors.New("no pod is on a node that scenarios may cut off; see KUBE_FAULT_NODES")
	}
	slices.SortStableFunc(victims, func(a, b Victim) int { return cmp.Compare(len(b.Pods), len(a.Pods)) })
	return victims, nil
}

// Victim is a node with the release's pods on it.
type Victim struct {
	Node string
	Pods []Pod
}
