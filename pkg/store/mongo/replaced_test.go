package mongo_test

import (
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/suites"
	"github.com/shardctl/shardctl/test/testmongo"
	"github.com/shardctl/shardctl/test/testprocess"
)

// Another database behind the address of the store, and the store itself dropped and set up anew, are refused.
func TestReplaced(t *testing.T) {
	suites.Need(t, suites.Mongo, "a real replica set")
	open := func(uri string) func(*testing.T) driver.Store {
		return func(t *testing.T) driver.Store {
			t.Helper()
			return storetest.Open(t, driver.Config{URI: uri, Database: "locks", Timeout: time.Second})
		}
	}
	t.Run("swapped", func(t *testing.T) {
		var addrs []string
		for range 2 {
			addrs = append(addrs, testmongo.New(t, testmongo.Options{Nodes: 1, Own: true}).Nodes()[0].Addr())
		}
		link := testprocess.Link(t, addrs[1])
		s := open("mongodb://" + link.Addr + "/?directConnection=true")(t)
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		link.Lead(addrs[0])
		there := 0
		uri := "mongodb://" + link.Addr + "/?directConnection=true"
		storetest.Replaced{MayApply: true, Open: open(uri), Swap: func() {
			there = 1 - there
			link.Lead(addrs[there])
			link.Cut()
		}}.Run(t)
	})
	t.Run("dropped", func(t *testing.T) {
		uri := testmongo.SharedByThree(t)
		storetest.Replaced{
			Open: func(t *testing.T) driver.Store {
				t.Helper()
				return storetest.Open(t, driver.Config{URI: uri, Timeout: time.Second})
			},
			MayApply: true,
			Drop:     func() { must(t, rawDatabase(t, uri).Drop(t.Context())) },
		}.Run(t)
	})
}
