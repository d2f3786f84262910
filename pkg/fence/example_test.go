package fence_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/shardctl/shardctl/pkg/fence"
)

// An owner is paused before it writes. Meanwhile another has followed, with a larger token.
func ExampleMemory() {
	var fences fence.Memory
	position := 0
	save := func(token int64, to int) error {
		return fences.Do(context.Background(), fence.Exclusive("topics/a", token), func(context.Context) error {
			position = to
			return nil
		})
	}
	fmt.Println(save(7, 10))
	fmt.Println(save(9, 11))
	err := save(7, 10) // the paused one
	fmt.Println(errors.Is(err, fence.ErrOld), position)
	fmt.Println(err)
	// Output:
	// <nil>
	// <nil>
	// true 11
	// token 7 of topics/a is old: 9 has been seen: another owner has followed
}

// Readers own a key at the same time. The newer one does not refuse the older one, and the next writer refuses both.
func ExampleShared() {
	var fences fence.Memory
	ask := func(c fence.Claim) {
		err := fences.Do(context.Background(), c, func(context.Context) error { return nil })
		fmt.Println(c, errors.Is(err, fence.ErrOld))
	}
	ask(fence.Shared("catalogue", 7))
	ask(fence.Shared("catalogue", 5))
	ask(fence.Exclusive("catalogue", 8))
	ask(fence.Shared("catalogue", 7))
	// Output:
	// shared token 7 of catalogue false
	// shared token 5 of catalogue false
	// token 8 of catalogue false
	// shared token 7 of catalogue true
}
