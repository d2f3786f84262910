//go:build linux

package peers

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/shardctl/shardctl/test/e2e/history"
)

// locks are what a holder has of one system.
type locks interface {
	// acquire waits until the key is held here, and keeps it held. release gives it back and returns when that is
	// acknowledged.
	acquire(ctx context.Context, key string) (release func(context.Context) error, err error)
}

// target is where a holder's system is, and how the holder is to use it.
type target struct {
	uri, token, name string
	lease            time.Duration
}

// Holder is the main function of a process that holds locks. It reads lines "acquire KEY" and "release KEY". It answers
// "acquired KEY BEGIN END", "released KEY BEGIN END" or "failed KEY TEXT", with times of package history. It ends with
// its input, and releases nothing then.
func Holder(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	flags := flag.NewFlagSet("holder", flag.ContinueOnError)
	peer := flags.String("peer", "", "the system")
	var t target
	flags.StringVar(&t.uri, "uri", "", "where it is")
	flags.StringVar(&t.token, "token", "", "what to show there")
	flags.StringVar(&t.name, "name", "", "this holder")
	flags.DurationVar(&t.lease, "lease", 0, "T")
	if err := flags.Parse(args); err != nil {
		return err
	}
	for _, p := range All {
		if p.id == *peer {
			l, err := p.open(ctx, t)
			if err != nil {
				return err
			}
			h := &holder{locks: l, out: out, held: map[string]func(context.Context) error{}}
			h.answer("opened", "-", history.Now(), nil)
			return h.serve(ctx, in)
		}
	}
	return fmt.Errorf("peer %q is not known", *peer)
}

// holder carries orders out, each in a goroutine.
type holder struct {
	locks locks

	mu   sync.Mutex // of all below
	out  io.Writer
	held map[string]func(context.Context) error // releases
}

func (h *holder) serve(ctx context.Context, in io.Reader) error {
	for lines := bufio.NewScanner(in); lines.Scan(); {
		switch verb, key, _ := strings.Cut(lines.Text(), " "); verb {
		case "acquire":
			go h.acquire(ctx, key)
		case "release":
			go h.release(ctx, key)
		default:
			return fmt.Errorf("%q is no order", lines.Text())
		}
	}
	return nil
}

func (h *holder) acquire(ctx context.Context, key string) {
	begin := history.Now()
	release, err := h.locks.acquire(ctx, key)
	h.mu.Lock()
	h.held[key] = release
	h.mu.Unlock()
	h.answer("acquired", key, begin, err)
}

func (h *holder) release(ctx context.Context, key string) {
	h.mu.Lock()
	release := h.held[key]
	delete(h.held, key)
	h.mu.Unlock()
	begin := history.Now()
	if release == nil {
		h.answer("released", key, begin, errors.New("not held"))
		return
	}
	h.answer("released", key, begin, release(ctx))
}

func (h *holder) answer(what, key string, begin history.Instant, err error) {
	end := history.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil {
		fmt.Fprintf(h.out, "failed %s %s\n", key, strings.ReplaceAll(err.Error(), "\n", " "))
		return
	}
	fmt.Fprintf(h.out, "%s %s %d %d\n", what, key, int64(begin), int64(end))
}
