package jsonlines

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// This program is the process that takes messages, too: MODE says what it does.
func TestMain(m *testing.M) {
	if mode := os.Getenv("MODE"); mode != "" {
		help(mode)
		return
	}
	goleak.VerifyTestMain(m)
}

func say(text string) { fmt.Fprintln(os.Stdout, text) }

func help(mode string) {
	if strings.HasPrefix(mode, "deaf") {
		signal.Ignore(syscall.SIGTERM)
	}
	fmt.Fprintln(os.Stderr, "pid "+strconv.Itoa(os.Getpid()))
	in := bufio.NewReader(os.Stdin)
	var held []string
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			break
		}
		var m struct {
			ID   string `json:"id"`
			Data any    `json:"data"`
		}
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			say("no JSON: " + line)
			os.Exit(9)
		}
		held = act(mode, held, m.ID, line, fmt.Sprint(m.Data))
	}
	say("input ended")
	if mode == "deaf" {
		time.Sleep(time.Hour)
	}
}

// act does what the mode says with a message, and returns the IDs that it holds back.
func act(mode string, held []string, id, line, data string) []string {
	quoted, _ := json.Marshal(id)
	switch mode {
	case "ok":
		say(`{"id": ` + string(quoted) + `, "ok": true}`)
	case "echo": // the line as it came, and then the bare id
		say("got " + strings.TrimSpace(line))
		say(id)
	case "backwards":
		if held = append([]string{id}, held...); len(held) == 3 {
			say(strings.Join(held, "\n"))
		}
	case "data": // what the message says
		say(data)
	case "exit":
		say(`{"id": "other", "ok": true}`)
		os.Exit(3)
	case "poison": // ends with one message, and answers others after a while
		if data == "bad" {
			os.Exit(3)
		}
		time.AfterFunc(20*time.Millisecond, func() { say(id) })
	case "last": // answers, and ends
		say(id)
		os.Exit(0)
	case "silent":
		_ = os.Stdout.Close()
		_, _ = io.Copy(io.Discard, os.Stdin)
	case "blind":
		_ = os.Stdin.Close()
		time.Sleep(time.Hour)
	case "stuck", "deafstuck":
		time.Sleep(time.Hour)
	}
	return held
}
