package main

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/shardctl/shardctl/pkg/shard"
)

// slots are those that this replica owns. Work on an object begins only while its slot is owned, and a slot is given
// back only when no work on its objects is left.
type slots struct {
	number  int
	objects objectsAPI
	queue   workqueue.TypedRateLimitingInterface[ctrl.Request] // there once watch was called

	gained  chan struct{} // has room for one: a slot waits for its list
	listing chan struct{} // has room for one: a list goes on

	mu    sync.Mutex
	owned map[string]*held // by name of the slot
}

// held is one slot that is owned, its objects, and the work on them.
type held struct {
	ctx  context.Context // ends when the slot must go
	slot string
	own  shard.Lease
	work sync.WaitGroup
	list chan error // has room for the result of the slot's list

	// The mutex of slots guards them:
	listed bool                           // the list has ended
	names  sets.Set[types.NamespacedName] // of the objects
}

func newSlots(number int, objects objectsAPI) *slots {
	return &slots{
		number: number, objects: objects, owned: map[string]*held{},
		gained: make(chan struct{}, 1), listing: make(chan struct{}, 1),
	}
}

// name is the name of an object's slot. An object keeps it for good, so it depends on names alone.
func (s *slots) name(object types.NamespacedName) string {
	return shard.SlotName(shard.Slot(object.String(), s.number), s.number)
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
// goes on. With an error, which is that of the list of its objects, it begins again with backoff.
func (s *slots) hold(ctx context.Context, own shard.Lease) error {
	return s.keep(&held{ctx: ctx, slot: own.Name(), own: own})
}

func (s *slots) keep(h *held) (err error) {
	h.list, h.names = make(chan error, 1), sets.New[types.NamespacedName]()
	s.mu.Lock()
	s.owned[h.slot] = h
	s.mu.Unlock()
	select {
	case s.gained <- struct{}{}:
	default: // another slot has said so
	}
	select {
	case err = <-h.list:
		if err == nil {
			<-h.ctx.Done()
		}
	case <-h.ctx.Done():
	}
	s.mu.Lock()
	delete(s.owned, h.slot) // from here on no work begins, and the names are gone
	s.mu.Unlock()
	h.work.Wait()
	return err
}
