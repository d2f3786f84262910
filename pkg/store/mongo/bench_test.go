package mongo_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/shardctl/shardctl/pkg/store/driver"
	mongostore "github.com/shardctl/shardctl/pkg/store/mongo"
	"github.com/shardctl/shardctl/test/testmongo"
)

// BenchmarkStore measures what hand-over and cold start are made of. "majority write" is the driver alone, for ratios:
//
//	go test ./pkg/store/mongo -run '^$' -bench Store -benchtime 200x
func BenchmarkStore(b *testing.B) {
	uri := testmongo.SharedByThree(b)
	s, err := mongostore.Open(b.Context(), mongostore.Options{URI: uri, Timeout: patient})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = s.Close(ctx)
	})
	var w writer
	apply := func(b *testing.B, changes ...driver.Change) {
		b.Helper()
		outs, err := s.Apply(b.Context(), changes...)
		if err != nil {
			b.Fatal(err)
		}
		for _, out := range outs {
			if out.Status != driver.Applied {
				b.Fatal(out)
			}
		}
	}
	b.Run("majority write", func(b *testing.B) { benchmarkDriver(b, uri) })
	b.Run("compare-and-set", func(b *testing.B) {
		id := fmt.Sprint("g/cas", b.N)
		apply(b, w.put(lock(id), 0))
		rev := int64(1)
		for b.Loop() {
			apply(b, w.put(lock(id), rev))
			rev++
		}
	})
	b.Run("refused", func(b *testing.B) {
		d := lock(fmt.Sprint("g/refused", b.N))
		apply(b, w.put(d, 0))
		for b.Loop() {
			if outs, err := s.Apply(b.Context(), w.put(d, 7)); err != nil || outs[0].Status != driver.Refused {
				b.Fatal(outs, err)
			}
		}
	})
	b.Run("create 200", func(b *testing.B) {
		for round := 0; b.Loop(); round++ {
			changes := make([]driver.Change, 0, 200)
			for i := range 200 {
				changes = append(changes, w.put(lock(fmt.Sprintf("g/%d/%d/%03d", b.N, round, i)), 0))
			}
			apply(b, changes...)
		}
	})
	b.Run("linearizable read", func(b *testing.B) {
		for b.Loop() {
			if _, err := s.Read(b.Context(), driver.KindLock, "g/none"); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("list sessions", func(b *testing.B) {
		for b.Loop() {
			if _, err := s.List(b.Context(), driver.KindSession, driver.Query{NoBody: true}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("write to notification", func(b *testing.B) {
		ctx, cancel := context.WithCancel(b.Context())
		defer cancel()
		notifications, err := s.Watch(ctx, driver.Interest{Session: "me"})
		if err != nil {
			b.Fatal(err)
		}
		<-notifications
		var written, notified time.Duration
		for b.Loop() {
			began := time.Now()
			apply(b, driver.Change{Op: driver.Increment, Doc: driver.Doc{Kind: driver.KindGroup, ID: "g"}})
			written += time.Since(began)
			<-notifications
			notified += time.Since(began)
		}
		b.ReportMetric(float64(written.Microseconds())/float64(b.N)/1000, "ms-write/op")
		b.ReportMetric(float64(notified.Microseconds())/float64(b.N)/1000, "ms-notification/op")
	})
}

func benchmarkDriver(b *testing.B, uri string) {
	b.Helper()
	client, err := mongo.Connect(options.Client().ApplyURI(uri).SetWriteConcern(writeconcern.Majority()))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = client.Disconnect(context.Background()) }()
	docs := client.Database("bench").Collection("writes")
	if _, err := docs.InsertOne(b.Context(), bson.M{}); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := docs.InsertOne(b.Context(), bson.M{"text": "a small document"}); err != nil {
			b.Fatal(err)
		}
	}
}
