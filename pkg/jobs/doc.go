// Package jobs runs cron jobs in Go, on exactly one of the processes that declare them.
//
//	m, err := jobs.New(jobs.Config{Store: store})
//	…
//	err = m.Add("0 3 * * *", "reports", func(ctx context.Context, run jobs.Run) error {
//		return report(ctx, run.Token)
//	})
//	…
//	err = m.Run(ctx)
//
// Every process adds the same jobs and calls [Manager.Run]. One of them owns each job, under a lease of package elect,
// and fires its ticks. When it ends or dies, another goes on with the next tick. The rules of ticks are those of
// package tasks: see [Option].
//
// A program that has a cron.Cron already calls [Manager.AddJob] in place of its AddJob, or uses [Manager.Once] as a
// cron.JobWrapper. Every process keeps its own clockwork then, and of each tick only one gets to run.
//
// # What is promised
//
// A tick is noted in the store before it runs, so each is run at most once in the cluster. Runs of one job never
// overlap. Each has a fencing token that is larger than those of all before it.
//
// # What is not
//
// A run that its process does not survive is not repeated: the next tick is the next run. A function that ignores its
// context until the lease is over ends its PROCESS, with status 75: see elect.Config.OnStuck. A process that is frozen
// and thaws may work on for a moment: let what it writes to refuse its token, by package fence.
package jobs
