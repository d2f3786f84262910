// Command receiver takes the messages that subscriptions deliver by HTTP, and rejects old tokens:
//
//	go run ./examples/receiver -listen 127.0.0.1:8000
//
// receiver.py beside it does the same with the standard library of Python.
package main

import (
	"context"
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/shardctl/shardctl/pkg/fence"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8000", "address to listen on")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *listen, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run serves until ctx ends, and writes a line for each message that was worked on.
func run(ctx context.Context, address string, out io.Writer) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "listening on %s\n", listener.Addr())
	r := &receiver{work: func(e event, token int64) error {
		if len(e.Data) == 0 {
			return errors.New("there is nothing in it")
		}
		fmt.Fprintln(out, e.ID, token, base64.StdEncoding.EncodeToString(e.Data))
		return nil
	}}
	server := &http.Server{Handler: r, ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	unwatch := context.AfterFunc(ctx, func() {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		ended <- server.Shutdown(last) // what is under way is worked on
	})
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		unwatch()
		return err
	}
	return <-ended
}

// receiver works on messages, one after another of each key. It remembers the largest token of each key.
//
// A service that keeps what it does in a database keeps the token there, too, beside what it protects: see
// examples/fence. It also remembers the IDs of messages there, since one may come again.
type receiver struct {
	work func(e event, token int64) error

	fences fence.Memory
}

// maxBody is the largest request, in bytes.
const maxBody = 32 << 20

func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	if request.Method != http.MethodPost {
		http.Error(w, "messages come by POST", http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, request.Body, maxBody))
	if err != nil {
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	delivered, err := readRequest(request.Header, body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	// One after another for each key: no newer token may come between the comparison and the work.
	err = r.fences.Do(request.Context(), delivered.claim, func(context.Context) error {
		answer(w, delivered, r.workOn(delivered))
		return nil
	})
	if err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
	}
}

// workOn returns the messages that failed, with the reasons.
func (r *receiver) workOn(delivered delivered) map[string]string {
	failed := map[string]string{}
	for _, e := range delivered.events {
		if err := r.work(e, delivered.claim.Token); err != nil {
			failed[e.ID] = err.Error()
		}
	}
	return failed
}
