package memory_test

import (
	"context"
	"fmt"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/memory"
)

// Two replicas want the same lock; the one that comes second is shown who has it.
func ExampleNew() {
	ctx := context.Background()
	a := memory.New()
	b := a.Client()

	claim := func(session string) driver.Change {
		return driver.Change{Op: driver.Put, Doc: driver.Doc{
			Kind: driver.KindLock, ID: "topics/one", Group: "topics", Rev: 1, Session: session,
			WriterID: driver.WriterID{Session: session, Seq: 1},
		}}
	}
	first, _ := a.Apply(ctx, claim("a"))
	second, _ := b.Apply(ctx, claim("b"))
	fmt.Println(first[0].Status == driver.Applied)
	fmt.Println(second[0].Status == driver.Refused, second[0].Doc.Session)
	// Output:
	// true
	// true a
}

// The answers of one replica are lost while the others go on.
func ExampleStore_Fault() {
	ctx := context.Background()
	a := memory.New()
	b := a.Client()
	a.Fault(func(memory.Call) memory.Verdict { return memory.Verdict{Fault: memory.LoseAnswer} })

	increment := driver.Change{Op: driver.Increment, Doc: driver.Doc{Kind: driver.KindGroup, ID: "topics"}}
	out, _ := a.Apply(ctx, increment)
	fmt.Println(out[0].Status == driver.Unknown, out[0].Err)
	res, _ := b.Read(ctx, driver.KindGroup, "topics")
	fmt.Println(res.Docs[0].Count)
	// Output:
	// true write: store unavailable: answer lost by a fault
	// 1
}
