package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/shardctl/shardctl/internal/connect"
)

// answerWithin is how long one request may take, besides the time that it waits for entries.
const answerWithin = 5 * time.Second

// parseURL reads a URL. Its errors may quote what it holds: no one is to see them.
func parseURL(text string) (*redis.Options, error) {
	if !strings.HasPrefix(text, "redis://") && !strings.HasPrefix(text, "rediss://") {
		return nil, errors.New(notURL)
	}
	return redis.ParseURL(text)
}

// options are those of a client for one subscription. The fields hold no variables any more.
func (s Source) options() (*redis.Options, error) {
	o, err := parseURL(s.URL)
	if err != nil {
		// Not quoted: it may hold a password.
		return nil, errors.New("redis.url: " + notURL)
	}
	password, err := s.Login.ReadPassword(Name)
	if err != nil {
		return nil, err
	}
	o.Username, o.Password = cmp.Or(s.Login.User, o.Username), cmp.Or(password, o.Password)
	if err := s.secure(o); err != nil {
		return nil, err
	}
	o.Protocol = 2
	o.DisableIdentity = true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	// A request whose answer was lost may have been carried out: entries would be passed over if it were sent again.
	o.MaxRetries, o.DialerRetries = -1, 1
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout = answerWithin, answerWithin, answerWithin
	o.ContextTimeoutEnabled = true
	// One waits for entries, one acknowledges, one asks for the lag or publishes.
	o.PoolSize, o.MinIdleConns, o.MaxIdleConns = 3, 0, 2
	o.ReadBufferSize, o.WriteBufferSize = 16<<10, 4<<10
	return o, nil
}

// secure sets the certificates.
func (s Source) secure(o *redis.Options) error {
	if s.TLS == (connect.TLS{}) {
		return nil
	}
	if o.TLSConfig == nil {
		return errors.New("redis.tls: is set, but a URL that begins with redis:// uses no TLS: write rediss://")
	}
	config, err := s.TLS.Config(Name)
	if err != nil {
		return err
	}
	config.ServerName = o.TLSConfig.ServerName
	o.TLSConfig = config
	return nil
}

// The client would write to standard error what its errors say as well, and for each connection. A program that wants
// that sets its own logger.
func init() { redis.SetLogger(&logging.VoidLogger{}) }

// link is the connection of one subscription to its stream. Its methods may be called concurrently.
type link struct {
	client  *redis.Client
	address string
	stream  string
	waiting sync.WaitGroup // requests that no one waits for any more
}

func newLink(o *redis.Options, stream string) *link {
	return &link{client: redis.NewClient(o), address: o.Addr, stream: stream}
}

// close ends all requests, and returns when none is left. Then returns when no one sends any.
func (l *link) close(then func()) error {
	err := l.client.Close()
	then()
	l.waiting.Wait()
	return err
}

// ask sends a request, and returns its answer when it is there or soon after ctx ends. The client itself looks at a
// context's deadline alone. Errors but those of ctx say which broker and stream.
func ask[T any](ctx context.Context, l *link, request func(context.Context) (T, error)) (T, error) {
	if err := ctx.Err(); err != nil {
		var none T
		return none, err // the client might send it all the same
	}
	within, cancel := context.WithTimeout(ctx, answerWithin)
	type answer struct {
		value T
		err   error
	}
	answered := make(chan answer, 1)
	l.waiting.Go(func() {
		defer cancel()
		value, err := request(within)
		answered <- answer{value, err}
	})
	var a answer
	select {
	case a = <-answered:
	case <-within.Done():
		select {
		case a = <-answered: // before its context ended
		default:
			a.err = within.Err()
		}
	}
	if a.err != nil && ctx.Err() != nil {
		return a.value, ctx.Err()
	}
	return a.value, l.explain(a.err)
}

// await returns when there is an entry after last, or block is over.
func (l *link) await(last id, block time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), block+answerWithin)
	defer cancel()
	err := l.client.XRead(ctx, &redis.XReadArgs{
		Streams: []string{l.stream, last.String()}, Count: 1, Block: block,
	}).Err()
	if errors.Is(err, redis.Nil) {
		return nil
	}
	return l.explain(err)
}

const noStream = "there is no such stream: add an entry to it, or correct redis.stream"

// advice is what to do about errors that begin with a word.
var advice = []struct{ word, text string }{
	{"NOSTREAM none", noStream},
	{"no such key", noStream},
	{"NOSTREAM", "the key is no stream: correct redis.stream"},
	{"NOAUTH", "the server wants a password: set redis.user, and redis.password or redis.passwordFile"},
	{"WRONGPASS", "correct redis.user and redis.password or redis.passwordFile"},
	{"NOPERM", "let the user do this, see ACL SETUSER"},
	{"WRONGTYPE", "the key holds something else: choose another name"},
	{"NOGROUP", "the group was destroyed: it is made again when the subscription is opened again"},
	{"NOOWNER", "the key that holds the group's token is gone: it is written when the subscription is opened again"},
	{"GAP", "entries were removed before they were read: redis.missing says how to go on"},
	{"LOADING", "the server reads its data: wait"},
	{"READONLY", "the server is a replica: redis.url must name the master"},
	{"MOVED", "the server is a node of a cluster: redis.url must name a server that has every key"},
}

// explain says which broker and stream an error is about, and what to do.
func (l *link) explain(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	what := ""
	for _, a := range advice {
		if strings.HasPrefix(text, a.word) || strings.HasPrefix(text, "ERR "+a.word) {
			what = ": " + a.text
			break
		}
	}
	if task, ok := strings.CutPrefix(text, "OTHERTASK "); ok {
		what = fmt.Sprintf(": task %s owns the consumer group: set another redis.group", task)
	}
	if token, ok := strings.CutPrefix(text, "OTHERTOKEN "); ok {
		what = fmt.Sprintf(": a newer owner of the task has the token %s: this one is no longer the owner", token)
	}
	if timeout := net.Error(nil); errors.Is(err, context.DeadlineExceeded) ||
		errors.As(err, &timeout) && timeout.Timeout() {
		what = fmt.Sprintf(": no answer within %s: see whether the server works", answerWithin)
	}
	return fmt.Errorf("redis %s, stream %s: %w%s", l.address, l.stream, err, what)
}
