//go:build linux

package docs_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/web"
	"github.com/shardctl/shardctl/test/pageblock"
	"github.com/shardctl/shardctl/test/suites"
	"github.com/shardctl/shardctl/test/testprocess"
)

// longest is how long the commands of a page may take; a build with nothing cached is part of it.
const longest = 10 * time.Minute

// What pages ask people to run is run, on this machine and as it stands there, but for what session.adapt replaces.
func TestPagesRun(t *testing.T) {
	bin := t.TempDir()
	build := sync.OnceValue(func() error { // pages that do not build the program take it for installed
		cmd := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "./cmd/shardctl")
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
		return nil
	})
	for _, page := range pages(t) {
		var steps []pageblock.Block
		for _, f := range pageblock.Blocks(page, read(t, page)) {
			if strings.HasPrefix(f.Directive, "run") || strings.HasPrefix(f.Directive, "file: ") {
				steps = append(steps, f)
			}
		}
		if len(steps) == 0 {
			continue
		}
		t.Run(strings.TrimPrefix(page, root+"/"), func(t *testing.T) {
			if slices.ContainsFunc(steps, func(b pageblock.Block) bool { return strings.Contains(b.Text, "python3") }) {
				testprocess.NeedPrograms(t, suites.Clients, "make clients-install", "python3")
			} else {
				suites.Need(t, suites.Processes, "real processes")
			}
			if err := build(); err != nil {
				t.Fatal(err)
			}
			s := newSession(t, bin)
			for _, step := range steps {
				s.do(step)
			}
		})
	}
}

// A session runs the blocks of one page, one after the other, in one shell.
type session struct {
	t     *testing.T
	dir   string // where the page's files are, and its stores
	ports map[string]string
	in    *os.File
	out   *output
}

func newSession(t *testing.T, bin string) *session {
	t.Helper()
	repository, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	s := &session{t: t, dir: t.TempDir(), ports: map[string]string{}, out: &output{}}
	documented := []string{"8080", "8081", "8082", "8083", "8084", "8085"}
	free, err := web.FreePorts(t.Context(), "127.0.0.1", len(documented))
	if err != nil {
		t.Fatal(err)
	}
	for i, port := range documented {
		s.ports[port] = strconv.Itoa(free[i])
	}
	listen := fmt.Sprintf(
		"version: 1\nserver: {listen: \"127.0.0.1:%s\"}\nadmin: {listen: \"127.0.0.1:%s\"}\n", s.ports["8080"],
		s.ports["8081"],
	)
	writeFile(t, filepath.Join(s.dir, "listen.yaml"), listen)

	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	s.in = write
	// A shell of its own group: Ctrl-C and the end reach all that it has started.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), longest)
	shell := exec.CommandContext(ctx, "bash", "--norc", "--noprofile", "-s")
	shell.Dir = repository
	shell.Stdin, shell.Stdout, shell.Stderr = read, s.out, s.out
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	shell.WaitDelay = 10 * time.Second
	shell.Env = append(os.Environ(), "GOBIN="+bin, "PATH="+bin+":"+os.Getenv("PATH"),
		"LISTEN="+filepath.Join(s.dir, "listen.yaml"),
		"SHARDCTL_STORE_URI=sqlite:"+filepath.Join(s.dir, "shardctl.db"),
		"SHARDCTL_SERVER=http://127.0.0.1:"+s.ports["8081"], "NO_COLOR=1", "TERM=dumb")
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	_ = read.Close()
	t.Cleanup(func() {
		_ = write.Close()
		_ = syscall.Kill(-shell.Process.Pid, syscall.SIGTERM) // replicas in the background hand over and go
		_ = shell.Wait()
		cancel()
		if t.Failed() {
			t.Logf("what the shell printed:\n%s", s.out.all())
		}
	})
	// The clone is this tree. A shell that reads commands from a pipe keeps background jobs in its own group.
	s.send("git() { :; }\ncd() { if [ \"$1\" = shardctl ]; then builtin cd '" + repository +
		"'; else builtin cd \"$@\"; fi; }\n")
	return s
}

func (s *session) send(text string) {
	if _, err := s.in.WriteString(text); err != nil {
		s.t.Fatal(err)
	}
}

// ownStore is an example that would make its store where it is started.
var ownStore = regexp.MustCompile(`go run \./examples/(\w+)`)

var replicaRun = regexp.MustCompile(`(shardctl|/cmd/shardctl) (run|dev)\b`)

// adapt has replicas listen where nothing else does, and files be where only this test is.
func (s *session) adapt(text string) string {
	for port, free := range s.ports {
		text = strings.ReplaceAll(text, port, free)
	}
	text = strings.ReplaceAll(text, "/tmp/shardctl-demo", s.dir)
	text = ownStore.ReplaceAllString(text, "$0 -store "+s.dir+"/$1.db")
	for _, takesURI := range []string{"mutex", "service"} {
		text = strings.ReplaceAll(text, " -store "+s.dir+"/"+takesURI, " -store sqlite:"+s.dir+"/"+takesURI)
	}
	return replicaRun.ReplaceAllStringFunc(text, func(found string) string {
		if strings.HasSuffix(found, "dev") {
			return found + " --port 0"
		}
		return found
	})
}

// alone adds listeners of its own to a replica whose configuration has none.
func alone(text string) string {
	return strings.ReplaceAll(text, "shardctl run --config ", "shardctl run --config $LISTEN --config ")
}

func (s *session) do(f pageblock.Block) {
	s.t.Helper()
	if name, is := strings.CutPrefix(f.Directive, "file: "); is {
		path := filepath.Join(s.dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			s.t.Fatal(err)
		}
		writeFile(s.t, path, s.adapt(f.Text))
		return
	}
	until, last := strings.CutPrefix(f.Directive, "run until: ")
	commands := f.Commands()
	for i, c := range commands {
		text := s.adapt(c.Text)
		if !strings.Contains(text, "INSTANCE=") {
			text = alone(text)
		}
		if last && i == len(commands)-1 {
			s.runUntil(f, text, until)
			return
		}
		got, status := s.run(text)
		if status != "0" && !strings.Contains(c.Text, "# exit code") {
			s.t.Fatalf("%s:%d: %s: exit code %s, and it printed\n%s", f.Page, f.Line, c.Text, status, got)
		}
		if c.Output != "" {
			s.compare(f, c, got)
		}
	}
}

// run gives the shell one command and waits for its end.
func (s *session) run(text string) (printed, status string) {
	s.t.Helper()
	from := s.out.mark()
	s.send(text + "\necho \"--ended-$?--\"\n")
	ended := regexp.MustCompile(`--ended-(\d+)--\n`)
	var found []int
	printed = s.out.wait(
		s.t, from, func(now string) bool { found = ended.FindStringSubmatchIndex(now); return found != nil }, text,
	)
	return printed[:found[0]], printed[found[2]:found[3]]
}

// runUntil starts a command that goes on, waits for what it is to print, and interrupts it as Ctrl-C does.
func (s *session) runUntil(f pageblock.Block, text, until string) {
	s.t.Helper()
	from := s.out.mark()
	// setsid: a group of its own, so that the interrupt reaches it and not the shell.
	text = strings.TrimSpace(text)
	s.send("export -f git cd 2>/dev/null; setsid bash -c '" + strings.ReplaceAll(text, "'", `'\''`) +
		"\ncode=$?; echo \"--over-$code--\"; exit $code' & child=$!\necho \"--child-$child--\"\n")
	begun := regexp.MustCompile(`--child-(\d+)--\n`)
	var found []int
	printed := s.out.wait(
		s.t, from, func(now string) bool { found = begun.FindStringSubmatchIndex(now); return found != nil }, text,
	)
	child := printed[found[2]:found[3]]
	over := regexp.MustCompile(`--over-\d+--`)
	printed = s.out.wait(s.t, from, func(now string) bool {
		return strings.Contains(now, until) || over.MatchString(now)
	}, text)
	if !strings.Contains(printed, until) {
		s.t.Fatalf("%s:%d: %s ended before it printed %q:\n%s", f.Page, f.Line, text, until, printed)
	}
	// go run itself ends with 1 when it is interrupted, whatever the program says.
	if got, status := s.run("kill -INT -" + child + "; wait " + child); status != "0" &&
		(status != "1" || !strings.HasPrefix(text, "go run ")) {
		s.t.Fatalf("%s:%d: %s: exit code %s after Ctrl-C, and it printed\n%s", f.Page, f.Line, text, status, got)
	}
}

// compare holds what a command printed to what the page shows.
func (s *session) compare(f pageblock.Block, c pageblock.Command, got string) {
	s.t.Helper()
	if !pageblock.Pattern(s.adapt(c.Output)).MatchString(got) {
		s.t.Errorf("%s:%d: %s printed\n%s\nand the page shows\n%s", f.Page, f.Line, c.Text, got, c.Output)
	}
}

// output is what the shell and all that it started have printed.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{}
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.more != nil {
		close(o.more)
		o.more = nil
	}
	return o.text.Write(b)
}

func (o *output) all() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func (o *output) mark() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Len()
}

var errLongest = errors.New("it took too long")

// wait returns what was printed since the mark, once that is enough.
func (o *output) wait(t *testing.T, from int, enough func(string) bool, what string) string {
	t.Helper()
	limit := time.NewTimer(longest)
	defer limit.Stop()
	for {
		o.mu.Lock()
		now := o.text.String()[from:]
		if enough(now) {
			o.mu.Unlock()
			return now
		}
		if o.more == nil {
			o.more = make(chan struct{})
		}
		more := o.more
		o.mu.Unlock()
		select {
		case <-more:
		case <-limit.C:
			t.Fatalf("%s: %v; it printed\n%s", what, errLongest, now)
		}
	}
}
