// Command dud is what an image runs that should never have been released. `dud exit …` ends at once; `dud hang …` never
// serves anything and ends only when it is asked to. What comes after is ignored: the chart's arguments.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	fmt.Fprintln(os.Stderr, "dud:", os.Args[1:])
	if len(os.Args) > 1 && os.Args[1] == "hang" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		<-ctx.Done()
		stop()
		return
	}
	os.Exit(1)
}
