package main

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
)

const (
	pageSize = 500                   // objects whose metadata a list has in memory
	gather   = 50 * time.Millisecond // slots that are gained within it share a list
)

// objectsAPI lists and watches the metadata of the objects, as metadata.ResourceInterface does.
type objectsAPI interface {
	List(ctx context.Context, o metav1.ListOptions) (*metav1.PartialObjectMetadataList, error)
	Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error)
}

// watch enqueues the objects of owned slots until ctx ends. It is a source of the controller, and returns at once.
//
// No selector of the API server selects by a hash of the name. So the metadata of all objects comes by, and that of
// other slots is dropped at once. A slot that is gained has its objects listed. It is owned before the list begins, so
// what changes later comes as an event.
func (s *slots) watch(ctx context.Context, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
	s.queue = queue
	source := inPages{&cache.ListWatch{ListWithContextFunc: s.relist, WatchFuncWithContext: s.objects.Watch}}
	go cache.NewReflector(source, &metav1.PartialObjectMetadata{}, events{s}, 0).RunWithContext(ctx)
	go s.listGained(ctx)
	return nil
}

// listGained makes one list for all slots that wait for theirs, again and again.
func (s *slots) listGained(ctx context.Context) {
	for {
		select {
		case <-s.gained:
			time.Sleep(gather)
			s.listWaiting(ctx)
		case <-ctx.Done():
			return
		}
	}
}

func (s *slots) listWaiting(ctx context.Context) {
	s.listing <- struct{}{}
	defer func() { <-s.listing }()
	waiting := s.which(false)
	if len(waiting) == 0 {
		return
	}
	_, err := s.list(ctx, waiting)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range waiting {
		h.listed = true
		h.list <- err
	}
}

// relist is what the reflector begins with, and again when its watch has expired. It is for the slots whose list has
// ended. That of the others comes later, and so its version is not older than that of which the watch begins.
func (s *slots) relist(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
	s.listing <- struct{}{}
	defer func() { <-s.listing }()
	version, err := s.list(ctx, s.which(true))
	return &metav1.PartialObjectMetadataList{ListMeta: metav1.ListMeta{ResourceVersion: version}}, err
}

// which are the owned slots whose list has ended, or has not.
func (s *slots) which(listed bool) map[string]*held {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := map[string]*held{}
	for slot, h := range s.owned {
		if h.listed == listed {
			found[slot] = h
		}
	}
	return found
}

// list enqueues the objects of some slots, page by page. In a relist it then enqueues those that were deleted while
// nobody watched. It returns the version of all pages, which is not older than any event before.
func (s *slots) list(ctx context.Context, of map[string]*held) (version string, err error) {
	gone := sets.New[types.NamespacedName]()
	s.mu.Lock()
	for _, h := range of {
		if h.listed {
			gone.Insert(h.names.UnsortedList()...)
		}
	}
	s.mu.Unlock()
	for options := (metav1.ListOptions{Limit: pageSize}); ; {
		page, err := s.objects.List(ctx, options)
		if err != nil {
			return "", err
		}
		for i := range page.Items {
			name := nameOf(&page.Items[i])
			gone.Delete(name)
			s.note(of[s.name(name)], name, true)
		}
		options.Continue = page.Continue
		if version = page.ResourceVersion; options.Continue == "" || len(of) == 0 {
			break
		}
	}
	for name := range gone {
		s.note(of[s.name(name)], name, false)
	}
	return version, nil
}

// note enqueues an object, and keeps its name or drops it. nil, and a slot that has been given back since: not this
// replica's. The name of an object that goes during its slot's list may stay until a relist, which enqueues it again.
func (s *slots) note(h *held, object types.NamespacedName, exists bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case h == nil || s.owned[h.slot] != h:
		return
	case exists:
		h.names.Insert(object)
	default:
		h.names.Delete(object)
	}
	s.queue.Add(ctrl.Request{NamespacedName: object})
}

// events are where the reflector puts what has changed.
type events struct{ *slots }

func (e events) Add(object any) error    { return e.changed(object, true) }
func (e events) Update(object any) error { return e.changed(object, true) }
func (e events) Delete(object any) error { return e.changed(object, false) }

// Replace has nothing left to do: the list has enqueued the objects.
func (e events) Replace([]any, string) error { return nil }
func (e events) Resync() error               { return nil }

func (e events) changed(object any, exists bool) error {
	name := nameOf(object)
	e.mu.Lock()
	h := e.owned[e.name(name)]
	e.mu.Unlock()
	e.note(h, name, exists)
	return nil
}

func nameOf(object any) types.NamespacedName {
	m := object.(*metav1.PartialObjectMetadata) //nolint:forcetypeassert // the reflector has checked it
	return types.NamespacedName{Namespace: m.Namespace, Name: m.Name}
}

// inPages has the reflector list, and not have all objects streamed, which it would keep until the last has come.
type inPages struct{ *cache.ListWatch }

func (inPages) IsWatchListSemanticsUnSupported() bool { return true }
