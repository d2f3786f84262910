package tasks_test

import (
	"context"
	"fmt"
	"time"

	"github.com/shardctl/shardctl/internal/runners/callback"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/tasks"
)

func ExampleRegistry() {
	var registry tasks.Registry
	err := registry.Register("report", func(ctx context.Context, run tasks.Run) error {
		run.Logger.Info("writing the report", "token", run.Token)
		return ctx.Err()
	})
	fmt.Println(err)
	fmt.Println(registry.Register("report", func(context.Context, tasks.Run) error { return nil }))
	fmt.Println(registry.Names())
	// Output:
	// <nil>
	// register callback "report": the name is taken
	// [report]
}

func ExampleParseSchedule() {
	schedule, err := tasks.ParseSchedule("30 2 * * *", "Europe/Berlin")
	if err != nil {
		fmt.Println(err)
		return
	}
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		fmt.Println(err)
		return
	}
	at := time.Date(2026, time.March, 28, 12, 0, 0, 0, berlin)
	for range 2 { // on the 29th the clock goes from 02:00 to 03:00
		at = schedule.Next(at)
		fmt.Println(at.Format(time.RFC3339))
	}
	_, err = tasks.ParseSchedule("0 0 30 2 *", "")
	fmt.Println(err)
	// Output:
	// 2026-03-29T03:00:00+02:00
	// 2026-03-30T02:30:00+02:00
	// schedule "0 0 30 2 *": this date never comes: no month of the list has such a day
}

func ExampleNewSupervisor() {
	var registry tasks.Registry
	if err := registry.Register("hello", func(context.Context, tasks.Run) error { return nil }); err != nil {
		fmt.Println(err)
		return
	}
	supervisor, err := tasks.NewSupervisor(tasks.Config{Instance: "a", Lease: 20 * time.Second, Registry: &registry})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer supervisor.Close()
	supervisor.Declare([]*tasks.Task{{
		Group: "greetings", Name: "hello", Runner: callback.Runner("hello"), Timing: tasks.Timing{Every: time.Minute},
	}})
	// What holds keys starts and stops their work:
	//nolint:staticcheck // QF1011: the type is what this shows
	var run func(elect.Key) elect.Runnable = supervisor.Runnable
	_ = run
	fmt.Println(registry.Names())
	// Output: [hello]
}
