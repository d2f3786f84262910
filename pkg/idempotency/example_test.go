package idempotency_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"

	"github.com/shardctl/shardctl/pkg/idempotency"
)

// A message is delivered twice, and paid once.
func Example() {
	guard, err := idempotency.New(idempotency.Config{Records: idempotency.Memory()})
	if err != nil {
		fmt.Println(err)
		return
	}
	pay := func(context.Context) (idempotency.Reply, error) {
		fmt.Println("paid")
		return idempotency.Reply{Body: []byte("receipt 1")}, nil
	}
	order := idempotency.Request{ID: "order-17", Fingerprint: idempotency.Fingerprint([]byte("5 EUR to Ann"))}
	for range 2 {
		reply, err := guard.Do(context.Background(), order, pay)
		fmt.Printf("%s replayed=%t %v\n", reply.Body, reply.Replayed, err)
	}
	other := idempotency.Request{ID: "order-17", Fingerprint: idempotency.Fingerprint([]byte("9 EUR to Bob"))}
	_, err = guard.Do(context.Background(), other, pay)
	fmt.Println(err)
	// Output:
	// paid
	// receipt 1 replayed=false <nil>
	// receipt 1 replayed=true <nil>
	// request "order-17": request ID was used for another request
}

// The payment and its record are in one transaction: exactly once.
func ExampleSQLTransactions() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "shop.db")+"?_txlock=immediate")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = db.Close() }()
	ctx := context.Background()
	for _, statement := range append(idempotency.SQLite.Schema(), "CREATE TABLE payments (amount INTEGER)") {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			fmt.Println(err)
			return
		}
	}
	transactions := idempotency.SQLTransactions{DB: db, Dialect: idempotency.SQLite}
	guard, err := idempotency.New(idempotency.Config{Transact: transactions.Transact})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		_, err := guard.Do(ctx, idempotency.Request{ID: "order-17"},
			func(ctx context.Context) (idempotency.Reply, error) {
				_, err := idempotency.TxFrom(ctx).ExecContext(ctx, "INSERT INTO payments VALUES (5)")
				return idempotency.Reply{Body: []byte("receipt 1")}, err
			})
		if err != nil {
			fmt.Println(err)
		}
	}
	var payments int
	if err := db.QueryRowContext(ctx, "SELECT count(*) FROM payments").Scan(&payments); err != nil {
		fmt.Println(err)
	}
	fmt.Println(payments, "payment")
	// Output:
	// 1 payment
}
