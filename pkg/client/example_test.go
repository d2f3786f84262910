package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/client"
)

// replica stands for a replica in the examples.
func replica() *httptest.Server {
	answers := map[string]string{
		"GET /api/v1/tasks": `{"items":[{"key":"topics/topic-007","state":"backoff","instance":"web-1",` +
			`"lastError":"exit status 3"}],"continue":""}`,
		"POST /api/v1/instances/web-1/drain": `{"changed":["web-1"],"unchanged":[],"refused":[],` +
			`"moves":[{"key":"topics/topic-007","from":"web-1","to":"web-2","reason":"Drain"}]}`,
		"GET /api/v1/events": "event: snapshot\nid: 7\ndata: {\"items\":[]}\n\n" +
			"event: upsert\nid: 8\ndata: " +
			"{\"id\":\"8\",\"type\":\"Moved\",\"key\":\"topics/topic-007\",\"from\":\"web-1\",\"to\":\"web-2\"}\n\n",
	}
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, ok := answers[r.Method+" "+r.URL.Path]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			answer = `{"status":404,"reason":"NotFound","detail":"no task \"topics/none\" is declared"}`
		}
		_, _ = w.Write([]byte(answer))
	}))
}

func ExampleNew() {
	server := replica() // in earnest: http://127.0.0.1:8081, or a Service
	defer server.Close()
	c, err := client.New(server.URL, client.WithToken("secret"), client.WithTimeout(5*time.Second))
	if err != nil {
		fmt.Println(err)
		return
	}
	tasks, err := c.Tasks().List(context.Background(), client.Filter{Group: "topics", State: "backoff,failed"})
	if err != nil {
		fmt.Println(err)
		return
	}
	for i := range tasks {
		fmt.Printf("%s on %s: %s\n", tasks[i].Key, tasks[i].Instance, tasks[i].LastError)
	}
	_, err = c.Tasks().Get(context.Background(), "topics", "none")
	fmt.Println(errors.Is(err, client.ErrNotFound), err)
	// Output:
	// topics/topic-007 on web-1: exit status 3
	// true no task "topics/none" is declared
}

func ExampleInstances_Drain() {
	server := replica()
	defer server.Close()
	c, err := client.New(server.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	o := client.ChangeOptions{Reason: "a new kernel", DryRun: true}
	result, err := c.Instances().Drain(context.Background(), "web-1", o)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, move := range result.Moves {
		fmt.Printf("%s would move from %s to %s\n", move.Key, move.From, move.To)
	}
	// Output: topics/topic-007 would move from web-1 to web-2
}

func ExampleEvents_Watch() {
	server := replica()
	defer server.Close()
	c, err := client.New(server.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	errSeen := errors.New("seen")
	err = c.Events().Watch(context.Background(), client.WatchOptions{}, func(change client.Change[api.Event]) error {
		if change.Kind == client.Snapshot {
			return nil // what has happened before
		}
		for _, e := range change.Items {
			fmt.Printf("%s %s from %s to %s\n", e.Type, e.Key, e.From, e.To)
		}
		return errSeen
	})
	fmt.Println(errors.Is(err, errSeen))
	// Output:
	// Moved topics/topic-007 from web-1 to web-2
	// true
}
