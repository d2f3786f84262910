//go:build linux

package brokers_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/shardctl/shardctl/test/e2e/harness"
	. "github.com/shardctl/shardctl/test/e2e/suite"
)

// receivers are the programs of examples/receiver: the command that starts each.
var receivers = map[string]func(ctx context.Context) []string{
	"Go": func(ctx context.Context) []string {
		program, err := harness.BuildProgram(ctx, Work, "./examples/receiver")
		Expect(err).NotTo(HaveOccurred())
		return []string{program, "-listen", "127.0.0.1:0"}
	},
	"Python": func(context.Context) []string {
		python, err := exec.LookPath("python3")
		if err != nil {
			Skip("python3 is not in PATH: the receiver in Python is not tried")
		}
		path, err := filepath.Abs("../../../examples/receiver/receiver.py")
		Expect(err).NotTo(HaveOccurred())
		return []string{python, path, "--listen", "127.0.0.1:0"}
	},
}

// worked is a message that a receiver has worked on.
type worked struct {
	id    string
	token int64
	body  string
}

// program is a receiver that runs.
type program struct {
	url string

	mu    sync.Mutex
	all   []worked
	other []string // lines that are no messages
}

// startReceiver starts a receiver, which ends with the scenario.
func startReceiver(ctx context.Context, language string) *program {
	GinkgoHelper()
	command := receivers[language](ctx)
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stderr = GinkgoWriter
	out, err := cmd.StdoutPipe()
	Expect(err).NotTo(HaveOccurred())
	Expect(cmd.Start()).To(Succeed())
	in := bufio.NewScanner(out)
	said := in.Scan()
	address, listens := strings.CutPrefix(in.Text(), "listening on ")
	p := &program{url: "http://" + address}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for in.Scan() {
			p.line(in.Text())
		}
	}()
	DeferCleanup(func() {
		stop()
		<-read
		_ = cmd.Wait() // it was killed
	})
	Expect(said && listens).To(BeTrue(), "the receiver in %s does not say where it listens: %q", language, address)
	return p
}

// line reads ID TOKEN BODY, of which the body is base64.
func (p *program) line(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	words := strings.Fields(text)
	if len(words) == 3 {
		token, noToken := strconv.ParseInt(words[1], 10, 64)
		if body, err := base64.StdEncoding.DecodeString(words[2]); err == nil && noToken == nil {
			p.all = append(p.all, worked{words[0], token, string(body)})
			return
		}
	}
	p.other = append(p.other, text)
}

// lines are the messages that it has worked on, and the lines that are none.
func (p *program) lines() ([]worked, []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.all), slices.Clone(p.other)
}

// bodies are those of the messages of a topic, in the order in which they were worked on.
func (p *program) bodies(topic string) []string {
	all, _ := p.lines()
	var bodies []string
	for _, w := range all {
		if strings.HasPrefix(w.body, topic+" ") {
			bodies = append(bodies, w.body)
		}
	}
	return bodies
}

// send sends a message as a run of the task with this token would, and returns the status of the answer.
func (p *program) send(ctx context.Context, key string, token int64, body string) int {
	GinkgoHelper()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url+"/events", strings.NewReader(body))
	Expect(err).NotTo(HaveOccurred())
	for name, value := range map[string]string{
		"Shardctl-Key": key, "Shardctl-Fencing-Token": fmt.Sprint(token), "Ce-Id": fmt.Sprint("sent-", token),
		"Ce-Specversion": "1.0",
		"Content-Type":   "text/plain",
	} {
		request.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(request)
	Expect(err).NotTo(HaveOccurred())
	defer func() { _ = response.Body.Close() }() // only the status counts
	return response.StatusCode
}
