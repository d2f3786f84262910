// Package stale shows a fence an owner that is frozen and thawed: two real processes, each with a lease on one key. The
// first is stopped by SIGSTOP beyond its lease. The second takes over and writes. Then the first goes on.
//
// Only tests use it. A test's own program is the owner, started again: its TestMain begins with [Main].
package stale

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/fence"
	"github.com/shardctl/shardctl/pkg/store/sqlite"
)

// key is what both processes want to own.
const key = elect.Key("reports/monthly")

// lease is short: the second owner waits for its end.
const lease = 2 * time.Second

// Variables of an owner's environment.
const (
	envKind     = "SHARDCTL_STALE_KIND"
	envTarget   = "SHARDCTL_STALE_TARGET"
	envStore    = "SHARDCTL_STALE_STORE"
	envInstance = "SHARDCTL_STALE_INSTANCE"
)

// Place is where owners write one text, over the one before.
type Place interface {
	// Write writes under a claim.
	Write(ctx context.Context, c fence.Claim, text string) error
	// Bare writes without a fence.
	Bare(ctx context.Context, text string) error
	// Read is the text that stands there.
	Read(ctx context.Context) (string, error)
}

// Kinds opens places by their kinds. target says which one.
type Kinds map[string]func(ctx context.Context, target string) (Place, error)

// Main is an owner, where this process was started as one, and then ends it. Else it returns at once.
func Main(kinds Kinds) {
	kind := os.Getenv(envKind)
	if kind == "" {
		return
	}
	err := fmt.Errorf("there is no kind %q", kind)
	if open := kinds[kind]; open != nil {
		err = own(context.Background(), open, os.Stdin, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "owner:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// own waits for the key. From then on it writes what it is sent, under its first token and whatever became of its
// lease: so does work that looks at no context.
func own(ctx context.Context, open func(context.Context, string) (Place, error), in io.Reader, out io.Writer) error {
	place, err := open(ctx, os.Getenv(envTarget))
	if err != nil {
		return err
	}
	db, err := sqlite.Open(ctx, os.Getenv(envStore), sqlite.Options{})
	if err != nil {
		return err
	}
	elector, err := elect.Start(ctx, elect.Config{
		Store: db, Member: elect.Member{Instance: os.Getenv(envInstance)}, LeaseDuration: lease,
		OnStuck: func([]elect.Key) {}, // it would end the process, which is to go on
	})
	if err != nil {
		return err
	}
	tokens := make(chan int64, 1)
	_, err = elector.LockWith(ctx, key, elect.LockOptions{WaitForever: true},
		func(ctx context.Context, l *elect.Lease) error {
			tokens <- l.Token()
			<-ctx.Done()
			return nil
		})
	if err != nil {
		return err
	}
	token := <-tokens
	fmt.Fprintln(out, "owns", token)
	return obey(ctx, place, token, in, out)
}

// obey does what each line says, and answers with one.
func obey(ctx context.Context, place Place, token int64, in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		what, text, _ := strings.Cut(lines.Text(), " ")
		var err error
		if what == "bare" {
			err = place.Bare(ctx, text)
		} else {
			err = place.Write(ctx, fence.Exclusive(string(key), token), text)
		}
		switch {
		case errors.Is(err, fence.ErrOld):
			fmt.Fprintln(out, "refused")
		case err != nil:
			return err
		default:
			fmt.Fprintln(out, "wrote")
		}
	}
	return lines.Err()
}
