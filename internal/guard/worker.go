package guard

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/shardctl/shardctl/internal/process"
)

// workerFD is the socket's descriptor in the worker: the first after standard error.
const workerFD = 3

// startWorker executes the worker with one end of a new socket pair and returns the other.
func startWorker(cfg Config, cgroup process.Cgroup) (int, *conn, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return 0, nil, fmt.Errorf("make a socket pair: %w", err)
	}
	unix.CloseOnExec(pair[0])
	unix.CloseOnExec(pair[1])
	ours := os.NewFile(uintptr(pair[0]), "worker")
	theirs := os.NewFile(uintptr(pair[1]), "guard")
	defer func() { _ = theirs.Close() }()
	pid, err := process.StartLasting(process.Spec{
		Path: cfg.Path, Args: slices.Concat(os.Args[:1], cfg.Args), Env: workerEnv(cfg.Env, cgroup),
		Stdin: cfg.Stdin, Stdout: cfg.Stdout, Stderr: cfg.Stderr, Extra: []*os.File{theirs},
		SameGroup: cfg.terminal,
	})
	if err != nil {
		_ = ours.Close()
		return 0, nil, fmt.Errorf("start the worker: %w", err)
	}
	conn, err := connFromFile(ours)
	if err != nil {
		_ = unix.Kill(pid, unix.SIGKILL)
		return 0, nil, err
	}
	return pid, conn, nil
}

func workerEnv(env []string, cgroup process.Cgroup) []string {
	out := slices.DeleteFunc(slices.Clone(env), func(e string) bool { return strings.HasPrefix(e, envGuard+"=") })
	return append(out, envGuard+"="+strconv.Itoa(workerFD)+":"+strconv.Itoa(os.Getpid())+":"+string(cgroup))
}
