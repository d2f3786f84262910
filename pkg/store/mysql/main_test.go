package mysql_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/test/testprocess"
	"github.com/shardctl/shardctl/test/testservers"
)

func TestMain(m *testing.M) {
	status := testprocess.Main(m)
	if err := goleak.Find(); status == 0 && err != nil {
		_, _ = os.Stderr.WriteString(err.Error() + "\n")
		status = 1
	}
	os.Exit(status)
}

// exec runs statements as the account with all rights.
func exec(t *testing.T, s *testservers.Server, text string) {
	t.Helper()
	if err := testservers.MariaDBExec(context.WithoutCancel(t.Context()), s.Server(), text); err != nil {
		t.Fatal(err)
	}
}

// databaseOf is the database of a URI, whose user has the same name.
func databaseOf(uri string) string { return uri[strings.LastIndexByte(uri, '/')+1:] }

// put is a change of a lock with a writer ID that is used once.
func put(id string, ifRev, seq int64) driver.Change {
	return driver.Change{IfRev: ifRev, Doc: driver.Doc{
		Kind: driver.KindLock, ID: id, Group: "g", Rev: ifRev + 1, WriterID: driver.WriterID{Session: "writer", Seq: seq},
	}}
}

// one performs one change.
func one(t *testing.T, ctx context.Context, s driver.Store, c driver.Change) driver.Outcome { //nolint:revive // as testing
	t.Helper()
	outs, err := s.Apply(ctx, c)
	if err != nil {
		t.Fatalf("apply: %v", err)
	}
	return outs[0]
}
