package main

import (
	"context"
	"sync"

	"github.com/shardctl/shardctl/pkg/shard"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// slots are those that this replica owns. Work on an object begins only while its slot is owned, and a slot is given
// back only when no work on its objects is left.
type slots struct {
	number int
	cache  client.Reader // of all objects, by their slots

	started chan struct{} // closed once queue is there
	queue   workqueue.TypedRateLimitingInterface[ctrl.Request]

	mu    sync.Mutex
	owned map[string]*held // by name of the slot
}

// held is one slot that is owned, and the work on its objects.
type held struct {
	ctx  context.Context // ends when the slot must go
	own  shard.Lease
	work sync.WaitGroup
}

// name is the name of an object's slot. An object keeps it for good, so it depends on names alone.
func (s *slots) name(object types.NamespacedName) string {
	return shard.SlotName(shard.Slot(object.String(), s.number), s.number)
}

// owns says whether the object's slot is owned.
func (s *slots) owns(object client.Object) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.owned[s.name(client.ObjectKeyFromObject(object))] != nil
}

// begin takes part in the work of an object's slot, until Done is called; nil: this replica does not own it.
func (s *slots) begin(object types.NamespacedName) *held {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.owned[s.name(object)]
	if h != nil {
		h.work.Add(1)
	}
	return h
}

// hold is the work of a slot: its objects are reconciled for as long as it is owned. When it returns, no work on them
// goes on.
func (s *slots) hold(ctx context.Context, own shard.Lease) error {
	h := &held{ctx: ctx, own: own}
	s.mu.Lock()
	s.owned[own.Name()] = h
	s.mu.Unlock()
	err := s.enqueue(ctx, own.Name())
	if err == nil {
		<-ctx.Done()
	}
	s.mu.Lock()
	delete(s.owned, own.Name()) // from here on none begins
	s.mu.Unlock()
	h.work.Wait()
	return err
}

// enqueue has every object of a slot reconciled. The slot is owned by now, so what changes later is enqueued by its
// event. What changed before is in the cache: a change is in the cache before its event comes.
func (s *slots) enqueue(ctx context.Context, slot string) error {
	select {
	case <-s.started:
	case <-ctx.Done():
		return nil
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err := s.cache.List(ctx, list, client.MatchingFields{bySlot: slot}); err != nil {
		return err // the work of the slot begins again, with backoff
	}
	for i := range list.Items {
		s.queue.Add(ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return nil
}
