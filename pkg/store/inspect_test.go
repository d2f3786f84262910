package store_test

import (
	"context"
	"testing"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/memory"
)

// plain has none of the optional methods.
type plain struct{ store.Store }

// able has all of them.
type able struct {
	store.Store
	floor int64
}

func (*able) Inspect(context.Context) (store.Inspection, error) {
	return store.Inspection{Server: "Able 1"}, nil
}

func (a *able) RaiseFloor(_ context.Context, floor int64) error {
	a.floor = floor
	return nil
}

// wrapped is a store around another one.
type wrapped struct{ store.Store }

func (w wrapped) Unwrap() store.Store { return w.Store }

// Stores take part by having the method, also those that another one wraps. Those without are left as they are.
func TestOptionalMethods(t *testing.T) {
	without, with := plain{memory.New()}, &able{Store: memory.New()}
	if got, err := store.Inspect(t.Context(), without); err != nil || got.Server != "" || got.Settings != nil {
		t.Errorf("inspect without the method: %+v, %v", got, err)
	}
	if got, err := store.Inspect(t.Context(), wrapped{wrapped{with}}); err != nil || got.Server != "Able 1" {
		t.Errorf("inspect one that is wrapped: %+v, %v", got, err)
	}
	if got, err := store.Inspect(t.Context(), wrapped{without}); err != nil || got.Server != "" {
		t.Errorf("inspect one that is wrapped, without the method: %+v, %v", got, err)
	}
	if got, err := store.Inspect(t.Context(), with); err != nil || got.Server != "Able 1" {
		t.Errorf("inspect: %+v, %v", got, err)
	}
	if err := driver.RaiseFloor(t.Context(), without, 7); err != nil {
		t.Errorf("raise without the method: %v", err)
	}
	if err := driver.RaiseFloor(t.Context(), with, 7); err != nil || with.floor != 7 {
		t.Errorf("raise: %d, %v", with.floor, err)
	}
}
