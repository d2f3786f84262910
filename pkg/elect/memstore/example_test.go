package memstore_test

import (
	"context"
	"fmt"

	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/elect/memstore"
)

// Two replicas want the same lock; the one that comes second is shown who has it.
func ExampleNew() {
	ctx := context.Background()
	a := memstore.New()
	b := a.Client()

	claim := func(session string) elect.Change {
		return elect.Change{Op: elect.Put, Doc: elect.Doc{
			Kind: elect.KindLock, ID: "topics/one", Group: "topics", Rev: 1, Session: session,
			Stamp: elect.Stamp{Session: session, Seq: 1},
		}}
	}
	first, _ := a.Apply(ctx, claim("a"))
	second, _ := b.Apply(ctx, claim("b"))
	fmt.Println(first[0].Status == elect.Applied)
	fmt.Println(second[0].Status == elect.Refused, second[0].Doc.Session)
	// Output:
	// true
	// true a
}

// The answers of one replica are lost while the others go on.
func ExampleStore_Fault() {
	ctx := context.Background()
	a := memstore.New()
	b := a.Client()
	a.Fault(func(memstore.Call) memstore.Verdict { return memstore.Verdict{Fault: memstore.LoseAnswer} })

	bump := elect.Change{Op: elect.Bump, Doc: elect.Doc{Kind: elect.KindGroup, ID: "topics"}}
	out, _ := a.Apply(ctx, bump)
	fmt.Println(out[0].Status == elect.Unknown, out[0].Err)
	res, _ := b.Read(ctx, elect.KindGroup, "topics")
	fmt.Println(res.Docs[0].Count)
	// Output:
	// true apply 1 changes: store unavailable: answer lost by a fault
	// 1
}
