//go:build unix

package testmongo

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/shardctl/shardctl/internal/freeport"
	"github.com/shardctl/shardctl/internal/process"
)

// dockerScript stands for Docker where none runs: it takes the same arguments and runs the commands here. What it
// cannot show is whether an image has what is asked of it.
const dockerScript = `#!/bin/sh
command=$1; shift
case $command in
info|pull) exit 0 ;;
run) while [ "$1" != -c ]; do shift; done; exec sh -c "$2" ;;
exec) shift; exec "$@" ;;
esac
exit 2
`

func TestDockerMachine(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	if dockerRuns(ctx) {
		t.Skip("Docker runs here: Start shows it")
	}
	mongod, err := exec.LookPath("mongod")
	if err != nil {
		mongod, err = wheelBinary(ctx)
	}
	if err != nil {
		t.Fatal(ErrNoServer, err)
	}
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "docker"), []byte(dockerScript), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+filepath.Dir(mongod)+":"+os.Getenv("PATH"))
	if !dockerRuns(ctx) {
		t.Fatal("docker info failed")
	}
	ports, err := freeport.Ports(ctx, "127.0.0.1", 1)
	if err != nil {
		t.Fatal(err)
	}
	machine, err := dockerMachine(ctx, t.TempDir(), "127.0.0.1", ports)
	if err != nil {
		t.Fatal(err)
	}
	dir, unlock, err := newDir(ctx)
	if err != nil {
		t.Fatal(err)
	}
	life, end := context.WithCancel(ctx)
	rs := &ReplicaSet{
		opts: Options{Nodes: 1}, machine: machine, thread: process.NewThread(), dir: dir, unlock: unlock, life: life,
		end:     end,
		clients: map[string]*mongo.Client{},
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(rs.LogTail(5))
		}
		if err := rs.Close(); err != nil {
			t.Error(err)
		}
	})
	n := &Node{rs: rs, port: ports[0]}
	rs.nodes = []*Node{n}
	if err := n.start(); err != nil {
		t.Fatal(err)
	}
	if err := n.waitUp(ctx); err != nil {
		t.Fatal(err)
	}
	if err := rs.initiate(ctx); err != nil {
		t.Fatal(err)
	}
	if err := n.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := rs.Primary(ctx); err != nil {
		t.Fatal(err)
	}
}
