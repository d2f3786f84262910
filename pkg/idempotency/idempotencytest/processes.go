package idempotencytest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/shardctl/shardctl/internal/clock"
	"github.com/shardctl/shardctl/pkg/idempotency"
)

// Environment of the processes of [Processes].
const (
	envURI   = "IDEMPOTENCYTEST_URI"
	envIndex = "IDEMPOTENCYTEST_INDEX"
	envCount = "IDEMPOTENCYTEST_COUNT"
)

// Sizes of a test.
const (
	processes = 10
	times     = 5  // processes that send each request
	atOnce    = 8  // requests that a process has under way
	dieEvery  = 25 // one request in so many may cost the process its life half way
	deaths    = 8  // processes that are killed at most
)

// Client is what one process works with.
type Client struct {
	Guard *idempotency.Guard
	// Effect is what the work does: it notes the reply for the request, once for each call.
	Effect func(ctx context.Context, id, reply string) error
	// Again says whether an error asks to send the request again. ErrInProgress, ErrNotKept and ErrUnavailable do.
	Again func(error) bool
}

// Said is what one process was answered.
type Said struct {
	ID       string `json:"id"`
	Reply    string `json:"reply,omitempty"`
	Replayed bool   `json:"replayed,omitempty"`
	Failed   string `json:"failed,omitempty"` // why there is no reply
	// nothing yet: the process is half way through the work and waits for its death
	Half bool `json:"half,omitempty"`
}

// Child makes this process a client when it was started as one, and then does not return. TestMain calls
// it first.
func Child(open func(ctx context.Context, uri string) (Client, error)) {
	uri := os.Getenv(envURI)
	if uri == "" {
		return
	}
	if err := child(open, uri); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "client:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func child(open func(context.Context, string) (Client, error), uri string) error {
	index, err := strconv.Atoi(os.Getenv(envIndex))
	if err != nil {
		return err
	}
	count, err := strconv.Atoi(os.Getenv(envCount))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), processesLimit)
	defer cancel()
	c, err := open(ctx, uri)
	if err != nil {
		return err
	}
	s := sender{Client: c, index: index, out: json.NewEncoder(os.Stdout)}
	var group sync.WaitGroup
	next := make(chan int)
	errs := make(chan error, atOnce)
	for range atOnce {
		group.Go(func() {
			for i := range next {
				if err := s.send(ctx, i); err != nil {
					errs <- err
					cancel()
					return
				}
			}
		})
	}
	// All processes send in the same order, so that repetitions meet.
	for i := range count {
		if (i+index)%(processes/times) != 0 {
			continue
		}
		select {
		case next <- i:
		case <-ctx.Done():
		}
	}
	close(next)
	group.Wait()
	close(errs)
	return <-errs
}

// sender sends the requests of one process.
type sender struct {
	Client
	index int
	mu    sync.Mutex
	out   *json.Encoder
}

func (s *sender) say(said Said) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.Encode(said)
}

// send sends one request until there is an answer.
func (s *sender) send(ctx context.Context, i int) error {
	r := idempotency.Request{ID: fmt.Sprintf("request-%05d", i), Fingerprint: "pay"}
	for {
		got, err := s.Guard.Do(ctx, r,
			func(ctx context.Context) (idempotency.Reply, error) { return s.work(ctx, i, r.ID) })
		switch {
		case err == nil:
			return s.say(Said{ID: r.ID, Reply: string(got.Body), Replayed: got.Replayed})
		case errors.Is(err, idempotency.ErrFailed), errors.Is(err, idempotency.ErrTakenOver):
			return s.say(Said{ID: r.ID, Failed: err.Error()})
		case errors.Is(err, idempotency.ErrInProgress), errors.Is(err, idempotency.ErrNotKept),
			errors.Is(err, idempotency.ErrUnavailable), s.Again != nil && s.Again(err):
		default:
			return err
		}
		if clock.Sleep(ctx, 5*time.Millisecond) != nil {
			return errors.Join(context.Cause(ctx), err)
		}
	}
}

// work has its effect, and may wait for its death before or after it.
func (s *sender) work(ctx context.Context, i int, id string) (idempotency.Reply, error) {
	if i%(2*dieEvery) == dieEvery {
		s.die(ctx, id)
	}
	reply := uuid.NewString()
	if err := s.Effect(ctx, id, reply); err != nil {
		return idempotency.Reply{}, err
	}
	if i%(2*dieEvery) == 0 {
		s.die(ctx, id)
	}
	return idempotency.Reply{Body: []byte(reply)}, nil
}

// die waits for the process's death, for as long as somebody may want it. Who started it does not kill them all.
func (s *sender) die(ctx context.Context, id string) {
	_ = s.say(Said{ID: id, Half: true})
	select {
	case <-time.After(50 * time.Millisecond):
	case <-ctx.Done():
	}
}

// processesLimit bounds all of it.
const processesLimit = 25 * time.Minute

// Processes sends count requests, each from five of ten processes at once. Processes are killed half way through the
// work, and then started again, so that they send all of their requests again. It returns what the processes were
// answered, and how many were killed. The test binary's TestMain calls [Child].
func Processes(t *testing.T, uri string, count int) (said []Said, killed int) {
	t.Helper()
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), processesLimit)
	defer cancel()
	p := parent{t: t, uri: uri, count: count, deaths: min(deaths, max(2, count/100))}
	var group sync.WaitGroup
	for index := range processes {
		group.Go(func() {
			for again := true; again && ctx.Err() == nil; {
				again = p.run(ctx, index)
			}
		})
	}
	group.Wait()
	if ctx.Err() != nil {
		t.Fatal("the processes did not end: ", context.Cause(ctx))
	}
	t.Logf("%d requests, %d answers, %d processes killed half way, in %s", count, len(p.said), p.killed,
		time.Since(began).Round(time.Millisecond))
	return p.said, p.killed
}

// parent starts and kills.
type parent struct {
	t      *testing.T
	uri    string
	count  int
	deaths int

	mu     sync.Mutex
	said   []Said
	killed int
}

// run runs one process to its end, and says whether it was killed.
func (p *parent) run(ctx context.Context, index int) (killed bool) {
	cmd := exec.CommandContext(ctx, os.Args[0]) //nolint:gosec // the test binary itself
	cmd.Env = append(os.Environ(), envURI+"="+p.uri, envIndex+"="+strconv.Itoa(index),
		envCount+"="+strconv.Itoa(p.count))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		p.t.Error(err)
		return false
	}
	killed = p.listen(out, func() { _ = cmd.Process.Kill() })
	if err := cmd.Wait(); err != nil && !killed {
		p.t.Errorf("process %d: %v", index, err)
	}
	return killed
}

// listen reads what a process says, and has it killed when it is half way and it is its turn.
func (p *parent) listen(out io.Reader, kill func()) (killed bool) {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var said Said
		if err := json.Unmarshal(lines.Bytes(), &said); err != nil {
			if !killed {
				p.t.Errorf("a process wrote %q", lines.Text())
			}
			continue
		}
		p.mu.Lock()
		switch {
		case !said.Half:
			p.said = append(p.said, said)
		case !killed && p.killed < p.deaths:
			p.killed++
			killed = true
			kill()
		}
		p.mu.Unlock()
	}
	return killed
}

// Once checks a run whose effects and records share transactions: each effect has happened exactly once, and
// everybody got the reply of that one. effects maps each request to the replies that were noted.
func Once(t *testing.T, count int, said []Said, effects map[string][]string) {
	t.Helper()
	if len(effects) != count {
		t.Errorf("%d requests had an effect, want %d", len(effects), count)
	}
	for id, replies := range effects {
		if len(replies) != 1 {
			t.Errorf("%s: %d effects, want one", id, len(replies))
		}
	}
	answers := make(map[string]int)
	for _, one := range said {
		answers[one.ID]++
		if one.Failed != "" || !slices.Equal(effects[one.ID], []string{one.Reply}) {
			t.Errorf("%s: answered %+v, the effect was %v", one.ID, one, effects[one.ID])
		}
	}
	for id, n := range answers {
		if n < times {
			t.Errorf("%s: %d answers, want %d at least", id, n, times)
		}
	}
	if len(answers) != count {
		t.Errorf("%d requests were answered, want %d", len(answers), count)
	}
}

// AtMostOnce checks a run whose effects and records do not share transactions: no effect has happened twice,
// each caller with a reply got that of the effect, and all others got the error that it failed. It returns how many
// requests are known to have failed.
func AtMostOnce(t *testing.T, count int, said []Said, effects map[string][]string) (failed int) {
	t.Helper()
	for id, replies := range effects {
		if len(replies) != 1 {
			t.Errorf("%s: %d effects, want at most one", id, len(replies))
		}
	}
	withError := make(map[string]bool)
	answered := make(map[string]bool)
	for _, one := range said {
		switch {
		case one.Failed != "":
			withError[one.ID] = true
		case !slices.Equal(effects[one.ID], []string{one.Reply}):
			t.Errorf("%s: answered %+v, the effect was %v", one.ID, one, effects[one.ID])
		default:
			answered[one.ID] = true
		}
	}
	for i := range count {
		if id := fmt.Sprintf("request-%05d", i); withError[id] == answered[id] {
			t.Errorf("%s: replied: %t, got an error: %t, want one of them", id, answered[id], withError[id])
		}
	}
	return len(withError)
}
