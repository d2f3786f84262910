package zookeeper

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/shardctl/shardctl/pkg/store"
)

// askTimeout bounds a question of four letters. They are for people: no call of a replica waits for one.
const askTimeout = time.Second

// ask sends a server one of ZooKeeper's questions of four letters, on a connection of its own. A server answers those
// that its 4lw.commands.whitelist names; srvr alone is in it by default.
func (s *setup) ask(ctx context.Context, host, question string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	conn, err := s.dialer.dial(ctx, host)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	if end, has := ctx.Deadline(); has {
		if err := conn.SetDeadline(end); err != nil {
			return "", err
		}
	}
	if _, err := io.WriteString(conn, question); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(io.LimitReader(conn, 1<<16))
	if len(answer) > 0 {
		return string(answer), nil // some end without a word of TLS
	}
	return "", err
}

var (
	versionLine = regexp.MustCompile(`(?m)^Zookeeper version: (\d+)\.(\d+)(\.\d+)?`)
	modeLine    = regexp.MustCompile(`(?m)^Mode: (\S+)`)
)

// versionOf is the version in an answer to srvr; empty: it does not say.
func versionOf(answer string) string {
	found := versionLine.FindString(answer)
	_, version, _ := strings.Cut(found, ": ")
	return version
}

// askAll asks each host which server it is, all at once. Who does not answer has said nothing.
func (s *setup) askAll(ctx context.Context) []string {
	answers := make([]string, len(s.hosts))
	each(len(answers), func(i int) { answers[i], _ = s.ask(ctx, s.hosts[i], "srvr") })
	return answers
}

// explain asks servers why they give no session, for the error of a first connection.
func (s *setup) explain(ctx context.Context, err error) error {
	answers := s.askAll(context.WithoutCancel(ctx))
	for i, host := range s.hosts {
		switch mode := modeLine.FindStringSubmatch(answers[i]); {
		case strings.Contains(answers[i], "not currently serving requests"):
			return fmt.Errorf("%s says that it serves nobody: the ensemble has no majority: %w", host, err)
		case mode != nil && mode[1] == "read-only":
			return fmt.Errorf("%s is in read-only mode: the ensemble has no majority: %w", host, err)
		}
	}
	return err
}

// members are the servers that vote, by the ensemble's own configuration; ok is false where no one says.
func (s *setup) members(ctx context.Context) (voters int, ok bool) {
	f, err := s.get(ctx, "/zookeeper/config")
	if err != nil || f.stat == nil {
		return 0, false
	}
	for line := range strings.Lines(string(f.data)) {
		if strings.HasPrefix(line, "server.") && !strings.Contains(line, ":observer") {
			voters++
		}
	}
	return max(voters, 1), true
}

// inspectServers finds problems. What cannot be seen is none.
func (s *setup) inspectServers(ctx context.Context) {
	if voters, ok := s.members(ctx); ok && voters == 1 {
		s.problems = append(s.problems, store.Problem{
			Reason:  ReasonStandalone,
			Message: "ZooKeeper is one server: there is one copy of the data, and no fail-over. Use three or five.",
		})
	}
}

// Inspect says which ZooKeeper this is and how it is set up, as far as its servers say. See [store.Inspect].
func (b *backend) Inspect(ctx context.Context) (store.Inspection, error) {
	if _, err := b.barrier.pass(ctx); err != nil {
		return store.Inspection{}, err
	}
	found := store.Inspection{Server: "ZooKeeper"}
	answers := b.setup.askAll(ctx)
	for i, host := range b.setup.hosts {
		value := "does not answer srvr (down, or 4lw.commands.whitelist leaves it out)"
		if version := versionOf(answers[i]); version != "" {
			value = version
			if mode := modeLine.FindStringSubmatch(answers[i]); mode != nil {
				value += ", " + mode[1]
			}
			found.Server = "ZooKeeper " + version
		}
		found.Settings = append(found.Settings, store.Setting{Name: "server " + host, Value: value, Holds: true})
	}
	found.Settings = append(found.Settings, b.setup.voters(ctx), b.setup.silence(ctx), store.Setting{
		Name: "forceSync", Value: "not shown by servers (a property of their JVM, zookeeper.forceSync)",
		Want: "yes, the default", Holds: true,
	})
	return found, nil
}

// voters is how many servers vote.
func (s *setup) voters(ctx context.Context) store.Setting {
	set := store.Setting{Name: "servers that vote", Value: "not to be seen (/zookeeper/config)", Holds: true}
	if n, ok := s.members(ctx); ok {
		set.Value, set.Want, set.Holds = strconv.Itoa(n), "3 or more", n >= 3
	}
	return set
}

var confLine = regexp.MustCompile(`(?m)^(tickTime|syncLimit)=(\d+)`)

// silence is for how long a leader may be silent before its followers elect another one.
func (s *setup) silence(ctx context.Context) store.Setting {
	set := store.Setting{
		Name: "tickTime × syncLimit", Value: "not shown (4lw.commands.whitelist leaves conf out)", Holds: true,
	}
	answer, err := s.ask(ctx, s.client.conn().Server(), "conf")
	if err != nil {
		return set
	}
	product, found := 1, 0
	for _, match := range confLine.FindAllStringSubmatch(answer, -1) {
		n, err := strconv.Atoi(match[2])
		if err != nil {
			return set
		}
		product, found = product*n, found+1
	}
	if found == 2 {
		set.Value = fmt.Sprintf("%v until a silent leader is replaced", time.Duration(product)*time.Millisecond)
	}
	return set
}
