package cli

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/shardctl/shardctl/internal/access"
	"github.com/shardctl/shardctl/internal/httpkeep"
	"github.com/shardctl/shardctl/internal/operate"
	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/internal/status"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/client"
)

// defaultServer is the admin listener of a replica on this machine, which serves everything.
const defaultServer = "http://127.0.0.1:8081"

// Globals are what all commands share. The zero value is ready.
type Globals struct {
	// Offline reads the store named in these configuration files and says what it shows. Nil: there is no --config.
	Offline func(ctx context.Context, configPaths []string) (*snapshot.Cluster, error)
	// Past reads what the store named in these configuration files keeps of events, runs and mutexes. Nil: nothing.
	Past func(ctx context.Context, configPaths []string, use func(snapshot.StoreSource) error) error
	// Change carries a request out on the store named in these configuration files. Nil: changes have no --config.
	Change func(
		ctx context.Context, configPaths []string, r operate.Request,
		about func(*snapshot.Cluster) ([]string, error), preview bool,
	) (api.ChangeResult, error)
	// Getenv reads the environment. Nil: os.Getenv.
	Getenv func(string) string
	// Now is the clock that ages are counted by. Nil: time.Now.
	Now func() time.Time

	server, tokenFile, caFile string
	config                    []string
	requestTimeout            time.Duration
	stale                     staleness
}

// defaultRequestTimeout is how long one request may take unless --request-timeout says otherwise.
const defaultRequestTimeout = 10 * time.Second

// Commands are those that ask a replica or a store, each with its own flags.
func Commands(g *Globals) []*cobra.Command {
	read := []*cobra.Command{
		statusCommand(g), getCommand(g), describeCommand(g), logsCommand(g), slotCommand(g), waitCommand(g),
		healthcheckCommand(g), whoamiCommand(g),
	}
	return append(read, changeCommands(g)...)
}

// addFlags adds the flags that say which replica a command talks to. [Globals.Client] reads them.
func (g *Globals) addFlags(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&g.server, "server", "", "replica to ask (SHARDCTL_SERVER; default "+defaultServer+")")
	fs.StringVar(
		&g.tokenFile, "token-file", "", "file with the token (SHARDCTL_ADMIN_TOKEN_FILE, SHARDCTL_ADMIN_TOKEN)",
	)
	fs.StringVar(&g.caFile, "ca-file", "", "certificates to trust for https, PEM")
	DurationFlag(
		fs, &g.requestTimeout, "request-timeout", defaultRequestTimeout, "how long one request may take; 0: no limit",
	)
}

// addReading adds the flags of commands that a replica or a store alone can answer.
func (g *Globals) addReading(cmd *cobra.Command, stale string) {
	g.addFlags(cmd)
	g.addStale(cmd, stale)
	if g.Offline != nil {
		cmd.Flags().StringArrayVar(
			&g.config, "config", nil, "read the store of this configuration instead of asking a replica",
		)
	}
}

// Client is how commands ask: a replica, or with --config the store itself.
func (g *Globals) Client(ctx context.Context) (*client.Client, error) {
	if g.requestTimeout < 0 {
		return nil, usage("--request-timeout %s: want 0 or more", g.requestTimeout)
	}
	if len(g.config) > 0 {
		return g.offline(ctx)
	}
	base, err := g.address()
	if err != nil {
		return nil, err
	}
	token, err := g.token()
	if err != nil {
		return nil, err
	}
	transport, err := g.http()
	if err != nil {
		return nil, err
	}
	c, err := client.New(
		base, token, client.WithHTTPClient(transport), client.WithTimeout(g.requestTimeout),
		client.WithStale(g.stale.note),
	)
	if err != nil {
		return nil, usage("%w", err)
	}
	g.stale.asked = c
	return c, nil
}

func (g *Globals) address() (string, error) {
	base := cmp.Or(g.server, g.getenv("SHARDCTL_SERVER"), defaultServer)
	if !strings.Contains(base, "://") {
		base = "http://" + base
	}
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", usage("--server %q: want http://HOST:PORT or https://HOST:PORT", base)
	}
	return base, nil
}

// token is that of the environment, or of a file. The file has to be there now, and is read again when a watch goes on.
func (g *Globals) token() (client.Option, error) {
	file := cmp.Or(g.tokenFile, g.getenv("SHARDCTL_ADMIN_TOKEN_FILE"))
	if file == "" {
		return client.WithToken(g.getenv("SHARDCTL_ADMIN_TOKEN")), nil
	}
	if _, err := os.ReadFile(file); err != nil { //nolint:gosec // the file is the one that the caller names
		return nil, usage("--token-file: %w", err)
	}
	return client.WithTokenFile(file), nil
}

func (g *Globals) http() (*http.Client, error) {
	if g.caFile == "" {
		return &http.Client{}, nil
	}
	pool, err := access.CertPool(g.caFile)
	if err != nil {
		return nil, usage("--ca-file: %w", err)
	}
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
		Proxy:           http.ProxyFromEnvironment,
	}}, nil
}

// explain says what to do about an error of asking.
func (g *Globals) explain(cmd *cobra.Command, c *client.Client, err error) error {
	var bad *api.Error
	var exit Exit
	var unreached *url.Error
	switch {
	case err == nil, errors.As(err, &exit):
		return err
	case errors.As(err, &bad) && bad.Status == http.StatusUnauthorized:
		return fmt.Errorf("%s: %w; give a token with --token-file or SHARDCTL_ADMIN_TOKEN", c.BaseURL(), bad)
	case errors.As(err, &bad) && bad.Status == http.StatusMethodNotAllowed:
		return fmt.Errorf("%s: %w; name that address with --server", c.BaseURL(), bad)
	case errors.As(err, &bad) && bad.Status == http.StatusBadRequest:
		return Exit{CodeUsage, err}
	case errors.As(err, &bad):
		return err
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf(
			"%s did not answer in time; try again, with a longer --request-timeout, or another replica with --server",
			c.BaseURL(),
		)
	case errors.Is(err, syscall.ECONNREFUSED), errors.As(err, &unreached):
		advice := "start a replica, or name one with --server"
		if flags := cmd.Flags(); flags.Lookup("config") != nil {
			verb := "read"
			if flags.Lookup("dry-run") != nil {
				verb = "write to"
			}
			advice += ", or " + verb + " the store with --config PATH"
		}
		return fmt.Errorf("no replica answers at %s (%w): %s", c.BaseURL(), root(err), advice)
	default:
		return err
	}
}

// root is the innermost cause, without the chain of what was tried, which names the address over and over.
func root(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}

func (g *Globals) getenv(name string) string {
	if g.Getenv != nil {
		return g.Getenv(name)
	}
	return os.Getenv(name)
}

func (g *Globals) now() time.Time {
	if g.Now != nil {
		return g.Now()
	}
	return time.Now()
}

// surface is how things are shown on w: in colours only on a terminal, and not with NO_COLOR.
func (g *Globals) surface(w io.Writer) *surface {
	width, height := sizeOf(w)
	colour := terminal(w) && g.getenv("NO_COLOR") == "" && g.getenv("TERM") != "dumb"
	return &surface{Now: g.now(), Colour: colour, Width: width, Height: height}
}

// sizeOf is the size of a terminal in columns and rows; 0: w is none, and everything fits.
func sizeOf(w io.Writer) (width, height int) {
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		if width, height, err := term.GetSize(int(f.Fd())); err == nil {
			return width, height
		}
	}
	return 0, 0
}

// Shown is w for texts of others: what they hold that a terminal would obey is not shown on one. A file or a pipe gets
// each byte as it is. Colours of our own are not written to it.
func Shown(w io.Writer) io.Writer {
	if terminal(w) {
		return newPrintableWriter(w)
	}
	return w
}

func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// offline answers from the store itself, through the very handler that a replica would answer with. So what is selected
// and how it is paged cannot differ.
func (g *Globals) offline(ctx context.Context) (*client.Client, error) {
	if g.requestTimeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, g.requestTimeout)
		defer cancel()
	}
	newest, err := g.Offline(ctx, g.config)
	if err != nil {
		return nil, err
	}
	newest.Sort()
	var board snapshot.Board
	board.Publish(newest)
	c := status.Config{Source: &board}
	if g.Past != nil {
		c.Events, c.Runs, c.Mutexes = past{g}, past{g}, past{g}
	}
	handler := status.New(c)
	asked, err := client.New(
		"http://store", client.WithHTTPClient(&http.Client{Transport: direct{handler}}), client.WithTimeout(0),
		client.WithStale(g.stale.note),
	)
	g.stale.asked = asked
	return asked, err
}

func (g *Globals) isOffline() bool { return len(g.config) > 0 }

// past reads events, runs and mutexes from the store, each time that it is asked.
type past struct{ globals *Globals }

func pastOf[T any](ctx context.Context, p past, read func(snapshot.StoreSource) (T, error)) (found T, err error) {
	err = p.globals.Past(ctx, p.globals.config, func(s snapshot.StoreSource) error {
		found, err = read(s)
		return err
	})
	return found, err
}

// Events implements [snapshot.EventSource].
func (p past) Events(ctx context.Context, q snapshot.EventQuery) ([]api.Event, error) {
	return pastOf(ctx, p, func(s snapshot.StoreSource) ([]api.Event, error) { return s.Events(ctx, q) })
}

// EventsChanged implements [snapshot.EventSource].
func (p past) EventsChanged() <-chan struct{} { return nil }

// Runs implements [snapshot.RunSource].
func (p past) Runs(ctx context.Context, key string) ([]api.Run, error) {
	return pastOf(ctx, p, func(s snapshot.StoreSource) ([]api.Run, error) { return s.Runs(ctx, key) })
}

// Mutexes implements [snapshot.MutexSource].
func (p past) Mutexes(ctx context.Context) ([]api.Lock, error) {
	return pastOf(ctx, p, func(s snapshot.StoreSource) ([]api.Lock, error) { return s.Mutexes(ctx) })
}

// direct hands requests to a handler without a network. Answers are whole: it cannot stream.
type direct struct{ handler http.Handler }

func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	var a httpkeep.Answer
	d.handler.ServeHTTP(&a, r)
	return &http.Response{
		Status: fmt.Sprintf("%d %s", a.Status(), http.StatusText(a.Status())), StatusCode: a.Status(), Request: r,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: a.Header(),
		Body: io.NopCloser(bytes.NewReader(a.Body())), ContentLength: int64(len(a.Body())),
	}, nil
}
