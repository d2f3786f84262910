package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/shardctl/shardctl/pkg/shard"
)

// Objects of owned slots alone are enqueued and kept.
func TestOwnedSlotsAlone(t *testing.T) {
	rigged(t, func(r *rig) {
		r.api.put("a1", "b1")
		lose := r.gain("a")
		r.enqueued(time.Second, "a1")
		r.api.put("a2", "b2")
		r.api.remove("a1", "b1")
		r.enqueued(time.Second, "a1", "a2")
		r.kept("a2")
		if err := lose(); err != nil {
			r.t.Error(err)
		}
		r.kept()
		r.api.put("a2", "a3")
		r.enqueued(time.Second)
	})
}

// Slots that are gained together share a list, and so do those that are gained while one goes on.
func TestOneListForSeveralSlots(t *testing.T) {
	rigged(t, func(r *rig) {
		r.api.put("a1", "b1", "c1", "d1", "e1")
		time.Sleep(time.Second)
		r.api.begin(0, nil)
		r.gain("a")
		time.Sleep(gather / 2)
		r.gain("b")
		r.enqueued(time.Second, "a1", "b1")
		if lists := r.api.begin(time.Second, nil); lists != 1 {
			r.t.Errorf("%d lists", lists)
		}
		r.gain("c")
		time.Sleep(2 * gather)
		r.gain("d")
		time.Sleep(2 * gather)
		r.gain("e")
		r.enqueued(time.Minute, "c1", "d1", "e1")
		if lists := r.api.begin(0, nil); lists != 2 {
			r.t.Errorf("%d lists", lists)
		}
	})
}

// The work of a slot ends with the error of its list, and begins again.
func TestListFails(t *testing.T) {
	rigged(t, func(r *rig) {
		r.api.put("a1")
		time.Sleep(time.Second)
		failed := errors.New("failed")
		r.api.begin(0, failed)
		lose := r.gain("a")
		r.enqueued(time.Second)
		if err := lose(); !errors.Is(err, failed) {
			r.t.Error(err)
		}
		r.api.begin(0, nil)
		r.gain("a")
		r.enqueued(time.Second, "a1")
	})
}

// What is deleted while nobody watches is enqueued, and so is the rest.
func TestWatchExpires(t *testing.T) {
	rigged(t, func(r *rig) {
		r.api.put("a1", "a2", "b1", "c1")
		r.gain("a")
		r.gain("c")
		r.enqueued(time.Second, "a1", "a2", "c1")
		r.api.expire()
		r.api.remove("a1", "b1")
		r.enqueued(time.Minute, "a1", "a2", "c1")
		r.kept("a2", "c1")
	})
}

// A slot that is given back and gained again while a list goes on has nothing of that list.
func TestGainedAgainWhileListed(t *testing.T) {
	rigged(t, func(r *rig) {
		r.api.put("a1", "b1")
		time.Sleep(time.Second)
		r.api.begin(time.Second, nil)
		lose := r.gain("a")
		time.Sleep(gather + 3*time.Second/2) // the version of the list is made
		_ = lose()
		r.api.remove("a1")
		time.Sleep(time.Millisecond)
		r.gain("a")
		r.enqueued(time.Minute)
		r.kept()
	})
}

// An object is kept that came as an event, although the list of its slot is of a version without it.
func TestCreatedAgainWhileListed(t *testing.T) {
	rigged(t, func(r *rig) {
		time.Sleep(time.Second)
		r.api.begin(time.Second, nil)
		r.gain("a")
		r.api.put("a1")
		time.Sleep(gather + time.Second/2)
		r.api.remove("a1")
		time.Sleep(time.Second)
		r.api.put("a1")
		r.enqueued(time.Minute, "a1")
		r.kept("a1")
	})
}

// A slot that is gained while the reflector lists has a version that is not older than that of which the watch begins.
func TestGainedWhileReflectorLists(t *testing.T) {
	rigged(t, func(r *rig) {
		time.Sleep(time.Second)
		r.api.begin(time.Minute, nil)
		r.api.expire()
		time.Sleep(30 * time.Second)
		r.api.begin(0, nil)
		r.gain("a")
		time.Sleep(time.Second)
		r.api.put("a1")
		r.enqueued(time.Hour, "a1")
	})
}

// Whatever happens in whichever order: what has changed in a slot since it is owned, or exists, was enqueued since.
func TestNothingIsMissed(t *testing.T) {
	for seed := range uint64(300) {
		rigged(t, func(r *rig) {
			random := rand.New(rand.NewPCG(seed, 0))
			lost, removed := map[string]func() error{}, map[string]time.Time{}
			for range 60 {
				slot := string("abcde"[random.IntN(number)])
				object := slot + strconv.Itoa(random.IntN(4))
				switch random.IntN(8) {
				case 0, 1:
					r.api.put(object)
				case 2:
					if r.knows(object) {
						removed[object] = time.Now()
					}
					r.api.remove(object)
				case 3, 4:
					if lose := lost[slot]; lose == nil {
						lost[slot] = r.gain(slot)
					} else {
						_ = lose()
						delete(lost, slot)
					}
				case 5:
					r.api.expire()
				case 6:
					r.api.begin(time.Duration(random.IntN(2000))*time.Millisecond, nil)
				}
				time.Sleep(time.Duration(random.IntN(300)) * time.Millisecond)
			}
			time.Sleep(time.Hour)
			r.complete(removed)
			r.api.expire()
			time.Sleep(time.Hour)
			var want []string
			for object, exists := range r.api.exists {
				if _, owned := r.owned[object[:1]]; owned && exists {
					want = append(want, object)
				}
			}
			slices.Sort(want)
			r.kept(want...)
			if r.t.Failed() {
				r.t.Logf("seed %d", seed)
			}
		})
	}
}

// number is how many slots there are: a to e.
const number = 5

// rig has slots. The name of an object begins with that of its slot.
type rig struct {
	t     *testing.T
	slots *slots
	api   *fakeAPI
	queue *fakeQueue
	owned map[string]time.Time // since when
}

// rigged has time pass as the test sleeps.
func rigged(t *testing.T, test func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, queue: &fakeQueue{added: map[string]time.Time{}}, owned: map[string]time.Time{}}
		r.api = &fakeAPI{exists: map[string]bool{}, changed: map[string]time.Time{}}
		r.slots = newSlots(number, r.api)
		ctx, cancel := context.WithCancel(t.Context())
		if err := r.slots.watch(ctx, r.queue); err != nil {
			t.Fatal(err)
		}
		test(r)
		cancel()
		time.Sleep(time.Hour)
	})
}

// slotName is that of slot a, b and so on.
func slotName(slot string) string { return shard.SlotName(int(slot[0]-'a'), number) }

// objectIn is an object whose slot is the first letter of its name, and short is that name again.
func objectIn(short string) types.NamespacedName {
	for i := 0; ; i++ {
		o := types.NamespacedName{Namespace: "default", Name: fmt.Sprint(short, "-", i)}
		if shard.Slot(o.String(), number) == int(short[0]-'a') {
			return o
		}
	}
}

func short(name string) string { return strings.Split(name, "-")[0] }

// gain has a slot owned until the function that it returns is called, which returns the end of its work.
func (r *rig) gain(slot string) (lose func() error) {
	ctx, cancel := context.WithCancel(r.t.Context())
	ended := make(chan error, 1)
	r.owned[slot] = time.Now()
	go func() { ended <- r.slots.keep(&held{ctx: ctx, slot: slotName(slot)}) }()
	synctest.Wait()
	return func() error {
		delete(r.owned, slot)
		cancel()
		return <-ended
	}
}

// enqueued waits, and expects what was enqueued since it was called last.
func (r *rig) enqueued(wait time.Duration, want ...string) {
	r.t.Helper()
	time.Sleep(wait)
	r.queue.mu.Lock()
	defer r.queue.mu.Unlock()
	if got := slices.Sorted(maps.Keys(r.queue.added)); !slices.Equal(got, want) {
		r.t.Errorf("enqueued %q, want %q", got, want)
	}
	clear(r.queue.added)
}

// kept expects the names that are kept.
func (r *rig) kept(want ...string) {
	r.t.Helper()
	r.slots.mu.Lock()
	defer r.slots.mu.Unlock()
	var got []string
	for _, h := range r.slots.owned {
		for name := range h.names {
			got = append(got, short(name.Name))
		}
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		r.t.Errorf("kept %q, want %q", got, want)
	}
}

// knows says whether the list of an object's slot has ended, and the object was seen since, or is watched.
func (r *rig) knows(object string) bool {
	r.slots.mu.Lock()
	defer r.slots.mu.Unlock()
	r.api.mu.Lock()
	defer r.api.mu.Unlock()
	h := r.slots.owned[slotName(object)]
	return h != nil && h.listed && (h.names.Has(objectIn(object)) || r.api.watching != nil)
}

// complete expects that each object of an owned slot was enqueued once it had changed last. Of those that do not exist,
// these were known when they were deleted.
func (r *rig) complete(removed map[string]time.Time) {
	r.t.Helper()
	r.queue.mu.Lock()
	defer r.queue.mu.Unlock()
	for object, changed := range r.api.changed {
		since, owned := r.owned[object[:1]]
		must := r.api.exists[object] || removed[object].Equal(changed) && changed.After(since)
		if owned && must && r.queue.added[object].Before(changed) {
			r.t.Errorf("%s changed at %s and was enqueued at %s", object, changed, r.queue.added[object])
		}
	}
}

// fakeQueue notes when objects were enqueued last.
type fakeQueue struct {
	workqueue.TypedRateLimitingInterface[ctrl.Request]

	mu    sync.Mutex
	added map[string]time.Time
}

func (q *fakeQueue) Add(r ctrl.Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.added[short(r.Name)] = time.Now()
}

// fakeAPI is an API server with pages of two objects.
type fakeAPI struct {
	mu       sync.Mutex
	exists   map[string]bool
	changed  map[string]time.Time
	history  []watch.Event // the version of an event is its place, from 1 on
	oldest   int           // version of which a watch may begin
	watching *watch.FakeWatcher

	takes time.Duration // a list takes it before its version is made, and for each page
	fails error
	lists int
}

// begin has lists that begin from now on take a while for each page, or fail. It returns how many have begun since it
// was called last.
func (a *fakeAPI) begin(takes time.Duration, fails error) (lists int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	lists, a.lists, a.takes, a.fails = a.lists, 0, takes, fails
	return lists
}

func (a *fakeAPI) put(objects ...string) {
	for _, object := range objects {
		what := watch.Added
		if a.exists[object] {
			what = watch.Modified
		}
		a.change(what, object)
	}
}

func (a *fakeAPI) remove(objects ...string) {
	for _, object := range objects {
		if a.exists[object] {
			a.change(watch.Deleted, object)
		}
	}
}

func (a *fakeAPI) change(what watch.EventType, object string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.exists[object], a.changed[object] = what != watch.Deleted, time.Now()
	e := watch.Event{Type: what, Object: partial(object, len(a.history)+1)}
	a.history = append(a.history, e)
	if a.watching != nil {
		a.watching.Action(e.Type, e.Object)
	}
}

// expire ends the watch, and none begins of an older version than the next.
func (a *fakeAPI) expire() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.oldest = len(a.history) + 1
	a.history = append(a.history, watch.Event{})
	if a.watching != nil {
		a.watching.Error(&expired().ErrStatus)
		a.watching = nil
	}
}

func expired() *apierrors.StatusError { return apierrors.NewResourceExpired("expired") }

func partial(object string, version int) *metav1.PartialObjectMetadata {
	name := objectIn(object)
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: name.Namespace, Name: name.Name, ResourceVersion: strconv.Itoa(version),
	}}
}

// List has the version and the objects that are left in the token for the next page.
func (a *fakeAPI) List(_ context.Context, o metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	a.mu.Lock()
	takes, fails := a.takes, a.fails
	if o.Continue == "" {
		a.lists++
	}
	a.mu.Unlock()
	time.Sleep(takes)
	if fails != nil {
		return nil, fails
	}
	left := strings.Fields(o.Continue)
	if len(left) == 0 {
		a.mu.Lock()
		left = []string{strconv.Itoa(len(a.history))}
		for _, object := range slices.Sorted(maps.Keys(a.exists)) {
			if a.exists[object] {
				left = append(left, object)
			}
		}
		a.mu.Unlock()
		time.Sleep(takes)
	}
	list := &metav1.PartialObjectMetadataList{ListMeta: metav1.ListMeta{ResourceVersion: left[0]}}
	if len(left) > 3 {
		list.Continue = strings.Join(slices.Delete(slices.Clone(left), 1, 3), " ")
	}
	for _, object := range left[1:min(3, len(left))] {
		list.Items = append(list.Items, *partial(object, 0))
	}
	return list, nil
}

func (a *fakeAPI) Watch(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	version, err := strconv.Atoi(o.ResourceVersion)
	if err != nil || version < a.oldest {
		return nil, expired()
	}
	a.watching = watch.NewFakeWithOptions(watch.FakeOptions{ChannelSize: 1000})
	for _, e := range a.history[version:] {
		a.watching.Action(e.Type, e.Object)
	}
	return a.watching, nil
}
