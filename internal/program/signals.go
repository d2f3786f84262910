package program

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/shardctl/shardctl/internal/guard"
	"github.com/shardctl/shardctl/internal/verbs"
)

// lasting says of each command, by its name without the program's, what happens once nobody reads its output any more.
// A command that lasts goes on: it holds keys or a lock, or changes something, and its exit status has to say how that
// ended. A filter (false) ends by SIGPIPE, quietly, as programs in a pipeline do.
var lasting = withVerbs(map[string]bool{
	"run":  true,
	"dev":  true,
	"lock": true,

	"store copy":    true,
	"store init":    true,
	"store readmit": true,

	"":                      false, // help
	"help":                  false,
	"completion":            false,
	"completion bash":       false,
	"completion fish":       false,
	"completion powershell": false,
	"completion zsh":        false,
	"describe":              false,
	"get":                   false,
	"healthcheck":           false,
	"logs":                  false,
	"plan":                  false,
	"slot":                  false,
	"status":                false,
	"store":                 false,
	"store check":           false,
	"validate":              false,
	"version":               false,
	"wait":                  false,
	"whoami":                false,
})

// withVerbs adds the commands that change something to those that last.
func withVerbs(lasting map[string]bool) map[string]bool {
	for _, verb := range verbs.All() {
		lasting[string(verb.Name)] = true
	}
	return lasting
}

// commandName is how [lasting] names a command.
func commandName(cmd *cobra.Command) string {
	if !cmd.HasParent() {
		return ""
	}
	if parent := commandName(cmd.Parent()); parent != "" {
		return parent + " " + cmd.Name()
	}
	return cmd.Name()
}

// outliveReaders has a command that lasts go on when the reader of its output ends. SIGPIPE is caught for the rest of
// the process's life and left unread, so that writing fails instead. It is not ignored: what is ignored stays so in
// every process that is started, and tasks expect to die of it.
func outliveReaders(cmd *cobra.Command) {
	if !lasting[commandName(cmd)] {
		return
	}
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	cmd.SetOut(forPipes(cmd.OutOrStdout()))
	cmd.SetErr(forPipes(cmd.ErrOrStderr()))
}

// forPipes has a pipe take what nobody reads any more. What the command has done counts, and not whether somebody saw
// it. Anything but a pipe or a socket stays as it is.
func forPipes(w io.Writer) io.Writer {
	f, ok := w.(*os.File)
	if !ok {
		return w
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&(os.ModeNamedPipe|os.ModeSocket) == 0 {
		return w
	}
	return unreadPipe{f}
}

// unreadPipe is a pipe whose reader may have ended. What is written after that is dropped.
type unreadPipe struct{ io.Writer }

func (p unreadPipe) Write(b []byte) (int, error) {
	n, err := p.Writer.Write(b)
	if errors.Is(err, syscall.EPIPE) {
		return len(b), nil
	}
	return n, err
}

// interruptible ends with the signals that people and supervisors send.
func interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
}

// ignoreOrders has the worker of a replica take orders over the guard's socket alone. A signal sent to the whole group,
// or to this process by mistake, must not end it before its tasks are handed over.
func ignoreOrders() { signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP) }

// lockSignals are the signals to the worker of a lock that say something about those to its guard. Others that a
// terminal sends to the whole group are taken and left unread: this process goes on while the command is stopped.
func lockSignals() <-chan os.Signal {
	own := make(chan os.Signal, 16)
	guard.NotifyUnlessIgnored(own, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU)
	return own
}
