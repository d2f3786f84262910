//go:build unix

package testbroker

import (
	"context"
	"fmt"
	"strings"

	"github.com/shardctl/shardctl/internal/testprocess"
)

// nats is a NATS server with JetStream.
type nats struct{ server string }

func (n *nats) Ports() int { return 1 }

func (n *nats) Provide(ctx context.Context) (err error) {
	n.server, err = testprocess.Module{
		Kind: string(KindNATS), Parent: "github.com/shardctl/shardctl/internal/testbroker", Dir: "natsserver",
		Package: "github.com/nats-io/nats-server/v2",
	}.Program(ctx)
	return err
}

func (n *nats) Prepare(_ context.Context, s *testprocess.Site) error {
	return s.Write("nats.conf",
		`listen: "`+s.Addr(0)+`"`,
		`jetstream: {store_dir: "`+s.Path("jetstream")+`", max_file_store: 10GB}`,
	)
}

func (n *nats) Commands(s *testprocess.Site) []testprocess.Command {
	return []testprocess.Command{{Args: []string{n.server, "-c", s.Path("nats.conf")}}}
}

// Ready waits for the line that the server greets with: streams have been recovered by then.
func (n *nats) Ready(ctx context.Context, s *testprocess.Site) error {
	line, err := testprocess.AskLine(ctx, s.Addr(0), "")
	if err != nil {
		return err
	}
	if !strings.HasPrefix(line, "INFO ") {
		return fmt.Errorf("no NATS: %q", line)
	}
	return nil
}
