package jobs_test

import (
	"context"
	"fmt"

	"github.com/robfig/cron/v3"

	"github.com/shardctl/shardctl/pkg/jobs"
	"github.com/shardctl/shardctl/pkg/store/memory"
)

func ExampleManager_Add() {
	m, err := jobs.New(jobs.Config{Store: memory.New(), Instance: "a"}) // store/mongo or store/postgres in production
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	err = m.Add("@every 10ms", "report", func(_ context.Context, run jobs.Run) error {
		fmt.Println("the job", run.Name, "has a token:", run.Token > 0)
		stop() // a service goes on until it is asked to end
		return nil
	})
	fmt.Println(err)
	fmt.Println(m.Run(ctx))
	// Output:
	// <nil>
	// the job report has a token: true
	// <nil>
}

// A program with a clockwork of its own gives its jobs a name, and calls AddJob of the manager.
func ExampleManager_AddJob() {
	m, err := jobs.New(jobs.Config{Store: memory.New(), Instance: "a"})
	if err != nil {
		fmt.Println(err)
		return
	}
	c := cron.New()
	_, err = m.AddJob(c, "0 3 * * *", "report", cron.FuncJob(func() {})) // it was c.AddFunc("0 3 * * *", func() {})
	fmt.Println(err, len(c.Entries()))

	ctx, stop := context.WithCancel(context.Background())
	c.Start()
	defer c.Stop()
	stop() // a service goes on until it is asked to end
	fmt.Println(m.Run(ctx))
	// Output:
	// <nil> 1
	// <nil>
}
