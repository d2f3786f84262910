package program

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// pseudoTerminal is a pseudo-terminal: what is written to master is typed.
func pseudoTerminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	t.Cleanup(func() { _ = master.Close() })
	fd := int(master.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err = os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = slave.Close() })
	return master, slave
}

// state is what /proc says of a process: T is stopped.
func (r lockRig) state(pid string) string {
	text, err := os.ReadFile(filepath.Join("/proc", pid, "status"))
	if err != nil {
		return ""
	}
	_, after, _ := strings.Cut(string(text), "State:")
	return strings.TrimSpace(after)[:1]
}

func (r lockRig) becomes(pid, state string) {
	r.t.Helper()
	r.await("process "+pid+" becomes "+state, func() error {
		if is := r.state(pid); !strings.Contains(state, is) || is == "" {
			return fmt.Errorf("it is %q", is)
		}
		return nil
	})
}

// On a terminal Ctrl-Z stops command and job, for longer than the lease and without losing the lock. Both go on
// together. Ctrl-C reaches the command once.
func TestLockOnATerminal(t *testing.T) {
	r := sqliteRig(t)
	master, slave := pseudoTerminal(t)
	// A shell that knows jobs is the session's leader: a group without a shell cannot be stopped by a terminal.
	// The command starts nothing while it may be stopped: a shell that waits in vfork for a child that was stopped before
	// its exec is not stopped itself, so no one above it learns of the stop.
	script := `n=0; trap 'n=$((n+1)); echo > int-$n' INT; sleep 600 & echo $! > waits; echo $$ > leader; ` +
		`echo $PPID > guard; while kill -0 $! 2> /dev/null; do wait $!; done; exit $((n+10))`
	cmd := program(t.Context(), t)
	shell := r.shell(cmd.Path, script)
	shell.Stdin, shell.Stdout, shell.Stderr = slave, slave, slave
	shell.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = shell.Process.Kill() })
	leader, guard := r.wrote("leader"), r.wrote("guard")
	if _, err := master.WriteString("\x1a"); err != nil { // Ctrl-Z
		t.Fatal(err)
	}
	r.becomes(leader, "T")
	r.becomes(guard, "T")
	r.wrote("stopped")
	r.sh("true", "-w", "6", "--lease", "4s").want("while the job is stopped", 1)
	r.write("continue")
	r.becomes(guard, "SR")
	r.becomes(leader, "SR")
	if _, err := master.WriteString("\x03"); err != nil { // Ctrl-C
		t.Fatal(err)
	}
	r.wrote("int-1")
	r.sh("true", "-w", "1", "--lease", "4s").want("while the command goes on", 1)
	if err := syscall.Kill(r.number(r.wrote("waits")), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if code := r.wrote("code"); code != "11" {
		t.Errorf("code %s, want 11: one SIGINT", code)
	}
	if err := shell.Wait(); err != nil {
		t.Error(err)
	}
}

// shell is one that runs a job under the lock: once that was stopped it waits, and then has it go on.
func (r lockRig) shell(self, script string) *exec.Cmd {
	cmd := exec.CommandContext(r.t.Context(), "bash", "-mc", `trap : INT TSTP
"$1" lock k --store "$2" --lease 4s -- sh -c "$3"
echo > stopped; until test -e continue; do sleep 0.01; done
fg > /dev/null; echo $? > code; exit 0`, "bash", self, r.uri, script)
	cmd.Env, cmd.Dir = append(os.Environ(), envProgram+"=1"), r.dir
	return cmd
}
