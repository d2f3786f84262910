package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/shardctl/shardctl/pkg/shard"
)

const (
	hashAnnotation  = "example.com/data-hash"
	tokenAnnotation = "example.com/token"
)

// hashData stands for the work: it keeps a hash of a ConfigMap's data in an annotation.
//
// The object itself fences. An update names the version that was read, so the API server refuses it when anybody has
// written since. A smaller token than the last writer's is of an owner that has lost the slot.
func hashData(ctx context.Context, c client.Client, own shard.Lease, req ctrl.Request) (ctrl.Result, error) {
	var m corev1.ConfigMap
	if err := c.Get(ctx, req.NamespacedName, &m); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	hash, err := hashOf(&m)
	if err != nil || m.Annotations[hashAnnotation] == hash {
		return ctrl.Result{}, err
	}
	if last, _ := strconv.ParseInt(m.Annotations[tokenAnnotation], 10, 64); last > own.Token() {
		return ctrl.Result{}, nil
	}
	before := m.DeepCopy()
	if m.Annotations == nil {
		m.Annotations = map[string]string{}
	}
	m.Annotations[hashAnnotation] = hash
	m.Annotations[tokenAnnotation] = strconv.FormatInt(own.Token(), 10)
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	return ctrl.Result{}, c.Patch(ctx, &m, patch) // a conflict is tried again
}

func hashOf(m *corev1.ConfigMap) (string, error) {
	b, err := json.Marshal([]any{m.Data, m.BinaryData}) // in the order of keys
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8]), err
}
