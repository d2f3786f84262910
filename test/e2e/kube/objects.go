//go:build linux

package kube

import "time"

// The objects of the Kubernetes API, as far as scenarios read them.

// Meta is what all objects have.
type Meta struct {
	Name              string            `json:"name"`
	Namespace         string            `json:"namespace"`
	UID               string            `json:"uid"`
	Labels            map[string]string `json:"labels"`
	DeletionTimestamp *time.Time        `json:"deletionTimestamp"`
}

// List is what lists of all kinds have.
type List[T any] struct {
	Items []T `json:"items"`
}

// Condition of a pod, node or other object.
type Condition struct {
	Type, Status, Reason, Message string
}

// Pod of a release.
type Pod struct {
	Metadata Meta `json:"metadata"`
	Spec     struct {
		NodeName string `json:"nodeName"`
		Volumes  []struct {
			Name      string `json:"name"`
			Projected *struct {
				Sources []struct {
					ServiceAccountToken *struct{} `json:"serviceAccountToken"`
				} `json:"sources"`
			} `json:"projected"`
		} `json:"volumes"`
		Containers []struct {
			Image           string `json:"image"`
			SecurityContext struct {
				ReadOnlyRootFilesystem bool `json:"readOnlyRootFilesystem"`
			} `json:"securityContext"`
		} `json:"containers"`
	} `json:"spec"`
	Status struct {
		Phase             string            `json:"phase"`
		PodIP             string            `json:"podIP"`
		Conditions        []Condition       `json:"conditions"`
		ContainerStatuses []ContainerStatus `json:"containerStatuses"`
	} `json:"status"`
}

// ContainerStatus says how a container does and how its predecessor ended.
type ContainerStatus struct {
	RestartCount int            `json:"restartCount"`
	State        ContainerState `json:"state"`
	LastState    ContainerState `json:"lastState"`
}

// ContainerState is one of its fields.
type ContainerState struct {
	Waiting *struct {
		Reason string `json:"reason"`
	} `json:"waiting"`
	Terminated *struct {
		Reason   string `json:"reason"`
		ExitCode int    `json:"exitCode"`
	} `json:"terminated"`
}

// Ready says whether the pod takes part and is not going.
func (p Pod) Ready() bool {
	return p.Metadata.DeletionTimestamp == nil && isTrue(p.Status.Conditions, "Ready")
}

// Restarts counts those of all its containers.
func (p Pod) Restarts() int {
	n := 0
	for _, c := range p.Status.ContainerStatuses {
		n += c.RestartCount
	}
	return n
}

// Node of the cluster.
type Node struct {
	Metadata Meta `json:"metadata"`
	Spec     struct {
		Unschedulable bool `json:"unschedulable"`
	} `json:"spec"`
	Status struct {
		Conditions []Condition `json:"conditions"`
	} `json:"status"`
}

// Ready says whether its kubelet answers and pods may come.
func (n Node) Ready() bool { return isTrue(n.Status.Conditions, "Ready") && !n.Spec.Unschedulable }

// Deployment of a release.
type Deployment struct {
	Metadata Meta `json:"metadata"`
	Spec     struct {
		Replicas int `json:"replicas"`
	} `json:"spec"`
}

// Autoscaler is a HorizontalPodAutoscaler.
type Autoscaler struct {
	Metadata Meta `json:"metadata"`
	Spec     struct {
		MinReplicas int `json:"minReplicas"`
		MaxReplicas int `json:"maxReplicas"`
	} `json:"spec"`
}

// ConfigMap holds the configuration.
type ConfigMap struct {
	Metadata Meta              `json:"metadata"`
	Data     map[string]string `json:"data"`
}

func isTrue(conditions []Condition, kind string) bool {
	for _, c := range conditions {
		if c.Type == kind {
			return c.Status == "True"
		}
	}
	return false
}
