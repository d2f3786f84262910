package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// kubernetesSources are the versions of Kubernetes that the chart is checked for, in rising order. The last one is also
// the version that kube-score judges by.
var kubernetesSources = []struct{ version, module string }{
	{"1.29", "k8s.io/kubernetes@v1.29.6"},
	{"1.30", "k8s.io/kubernetes@v1.30.14"},
	{"1.31", "k8s.io/kubernetes@v1.31.14"},
	{"1.32", "k8s.io/kubernetes@v1.32.13"},
	{"1.33", "k8s.io/kubernetes@v1.33.13"},
	{"1.34", "k8s.io/kubernetes@v1.34.4"},
	{"1.35", "k8s.io/kubernetes@v1.35.4"},
	{"1.36", "k8s.io/kubernetes@v1.36.3"},
}

// kubernetesKinds are the definitions of the kinds that the chart renders, or that its extraObjects show.
var kubernetesKinds = []string{
	"io.k8s.api.apps.v1.Deployment",
	"io.k8s.api.autoscaling.v2.HorizontalPodAutoscaler",
	"io.k8s.api.batch.v1.Job",
	"io.k8s.api.core.v1.ConfigMap",
	"io.k8s.api.core.v1.Pod",
	"io.k8s.api.core.v1.Secret",
	"io.k8s.api.core.v1.Service",
	"io.k8s.api.core.v1.ServiceAccount",
	"io.k8s.api.networking.v1.Ingress",
	"io.k8s.api.networking.v1.NetworkPolicy",
	"io.k8s.api.policy.v1.PodDisruptionBudget",
	"io.k8s.api.rbac.v1.Role",
	"io.k8s.api.rbac.v1.RoleBinding",
}

// customSources are modules with custom resource definitions, of which each is the same for all versions of Kubernetes.
var customSources = []struct {
	module string
	files  []string // below the module's root
}{
	{"github.com/prometheus-operator/prometheus-operator@v0.94.1", []string{
		"example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml",
		"example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml",
		"example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml",
	}},
	{"github.com/kedacore/keda/v2@v2.20.2", []string{"config/crd/bases/keda.sh_scaledobjects.yaml"}},
}

// download brings a module through the module proxy, verified like any other, and returns where it is.
func download(ctx context.Context, module string) (string, error) {
	//nolint:gosec // a module of the list above
	command := exec.CommandContext(ctx, "go", "mod", "download", "-json", module)
	// outside of any module, whose go.sum it must not change
	command.Dir = os.TempDir()
	output, runErr := command.Output()
	var answer struct{ Dir, Error string }
	if err := json.Unmarshal(output, &answer); err != nil {
		return "", fmt.Errorf("download %s: %w", module, runErr)
	}
	if answer.Error != "" || runErr != nil {
		return "", fmt.Errorf("download %s: %s (%w)", module, answer.Error, runErr)
	}
	return answer.Dir, nil
}

// kubernetesDefinitions reads the kinds, and what they refer to, from the OpenAPI document of a version.
func kubernetesDefinitions(ctx context.Context, module string) (definitions, error) {
	dir, err := download(ctx, module)
	if err != nil {
		return nil, err
	}
	document, err := os.ReadFile(filepath.Join(dir, "api", "openapi-spec", "swagger.json")) //nolint:gosec // the same
	if err != nil {
		return nil, err
	}
	var swagger struct {
		Definitions map[string]map[string]any `json:"definitions"`
	}
	if err := json.Unmarshal(document, &swagger); err != nil {
		return nil, fmt.Errorf("read the OpenAPI document of %s: %w", module, err)
	}
	return convertKinds(swagger.Definitions, kubernetesKinds)
}

// customDefinitions reads the served versions of the kinds in a module's custom resource definitions.
func customDefinitions(ctx context.Context, module string, files []string) (definitions, error) {
	dir, err := download(ctx, module)
	if err != nil {
		return nil, err
	}
	all := definitions{}
	for _, file := range files {
		//nolint:gosec // a file of the module that was just downloaded
		text, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(file)))
		if err != nil {
			return nil, err
		}
		var resource customResource
		if err := yaml.Unmarshal(bytes.TrimSpace(text), &resource); err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		all.addCustomResource(resource)
	}
	return all, nil
}

// customResource is what is read of a CustomResourceDefinition.
type customResource struct {
	Spec struct {
		Group    string
		Names    struct{ Kind string }
		Versions []struct {
			Name   string
			Schema struct {
				OpenAPIV3Schema map[string]any `json:"openAPIV3Schema"`
			}
		}
	}
}

// reversed gives the prefix under which a group's definitions stand in Kubernetes' own document: com.coreos.monitoring.
func reversed(group string) string {
	parts := strings.Split(group, ".")
	for i, j := 0, len(parts)-1; i < j; i, j = i+1, j-1 {
		parts[i], parts[j] = parts[j], parts[i]
	}
	return strings.Join(parts, ".")
}
