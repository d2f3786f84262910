package kafka

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/shardctl/shardctl/internal/connect"
	"github.com/shardctl/shardctl/internal/decode"
	"github.com/shardctl/shardctl/internal/field"
	"github.com/shardctl/shardctl/internal/subscribe"
)

// settings are a source's fields for one Open, with the variables replaced and defaults filled in.
type settings struct {
	brokers    []string
	topic      string
	partitions []int32 // none: all
	group      string
	latest     bool      // begin at the end where no position is kept
	at         time.Time // or at this time; zero: at the beginning
	missing    string
	inStore    bool
	isolation  kgo.IsolationLevel
	maxBytes   int
	refresh    time.Duration
	security   []kgo.Opt
}

func (s Source) settings(session subscribe.Session) (*settings, error) {
	err := s.fields().Expand(Name, session.Expand)
	security, wrong := secure(s.SASL, s.TLS)
	if err = field.Join(err, wrong); err != nil {
		return nil, err
	}
	set := &settings{
		brokers: s.Brokers, topic: s.TopicName, partitions: s.Partitions, missing: s.Missing, maxBytes: s.MaxBytes,
		group:   cmp.Or(s.Group, "shardctl."+session.Group+"."+session.Name),
		inStore: s.Offsets == subscribe.Store, isolation: kgo.ReadCommitted(),
		refresh: cmp.Or(s.refresh, refreshEvery), security: security,
	}
	if s.Isolation == ReadUncommitted {
		set.isolation = kgo.ReadUncommitted()
	}
	set.latest, set.at, err = parseStart(s.Start)
	return set, err
}

// name is how errors call the subscription.
func (set *settings) name() string {
	return fmt.Sprintf("broker %s, topic %s", strings.Join(set.brokers, ","), set.topic)
}

// SASL is who the subscription is to the brokers. The zero value is no one in particular.
type SASL struct {
	Mechanism string // PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512
	connect.Login
}

// TLS is how connections are secured.
type TLS struct {
	Enabled bool
	connect.TLS
}

func (s *SASL) field() field.Field {
	return field.Field{Name: "sasl", Value: field.Mapping{Off: *s == (SASL{}), Fields: field.List{
		{Name: "mechanism", Value: field.Text{
			To: &s.Mechanism, Required: "is required", OneOf: []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"},
		}, Doc: "`PLAIN`, `SCRAM-SHA-256` or `SCRAM-SHA-512`."},
		{Name: "user", Value: field.Text{To: &s.User, Required: "is required"}, Doc: "Who connects."},
		connect.Password(&s.Password),
		connect.PasswordFile(&s.PasswordFile),
	}}, Doc: "By which the brokers know who connects. It has a `password` or a `passwordFile`."}
}

func (t *TLS) field() field.Field {
	enabled := field.Field{
		Name: "enabled", Value: field.Truth{To: &t.Enabled},
		Doc: "`true` with the system's authorities needs no file.", Unset: "`true` where a file is named",
	}
	return field.Field{Name: "tls", Value: field.Mapping{
		Off: *t == (TLS{}), Fields: append(field.List{enabled}, t.Files()...),
	}, Doc: "How connections are secured."}
}

// enable is to be called once t was read from the mapping n.
func (t *TLS) enable(n *decode.Node) {
	if n.At("tls", "enabled") == nil {
		t.Enabled = t.TLS != connect.TLS{}
	}
}

func (s SASL) validate() []decode.FieldError {
	wrong := s.ValidatePassword()
	if s != (SASL{}) && s.Password == "" && s.PasswordFile == "" {
		path := []string{"password"}
		wrong = append(wrong, decode.FieldError{Path: path, Message: "is required, or passwordFile"})
	}
	return decode.Within("sasl", wrong)
}

// secure are the options of a client that say how it connects. The files are read now, and again for each connection:
// a client connects again by itself, with what was renewed meanwhile.
func secure(s SASL, t TLS) ([]kgo.Opt, error) {
	var opts []kgo.Opt
	config, noConfig := t.config()
	if config != nil {
		opts = append(opts, kgo.Dialer(func(ctx context.Context, network, host string) (net.Conn, error) {
			config, err := t.config()
			if err != nil {
				return nil, err
			}
			dialer := &tls.Dialer{NetDialer: &net.Dialer{Timeout: dialWithin}, Config: config}
			return dialer.DialContext(ctx, network, host)
		}))
	}
	mechanism, noMechanism := s.mechanism()
	if mechanism != nil {
		opts = append(opts, kgo.SASL(mechanism))
	}
	return opts, field.Join(noConfig, noMechanism)
}

// mechanism is nil where there is none.
func (s SASL) mechanism() (sasl.Mechanism, error) {
	if s == (SASL{}) {
		return nil, nil
	}
	read := func() (string, error) { return s.ReadPassword(Name + ".sasl") }
	scrams := func(context.Context) (scram.Auth, error) {
		password, err := read()
		return scram.Auth{User: s.User, Pass: password}, err
	}
	_, err := read()
	switch s.Mechanism {
	case "SCRAM-SHA-256":
		return scram.Sha256(scrams), err
	case "SCRAM-SHA-512":
		return scram.Sha512(scrams), err
	default:
		return plain.Plain(func(context.Context) (plain.Auth, error) {
			password, err := read()
			return plain.Auth{User: s.User, Pass: password}, err
		}), err
	}
}

// config is nil where TLS is off.
func (t TLS) config() (*tls.Config, error) {
	if !t.Enabled {
		return nil, nil
	}
	return t.Config(Name)
}

// What a connection is given.
const (
	dialWithin   = 5 * time.Second
	answerWithin = 5 * time.Second  // beyond what a request itself waits
	retryFor     = 30 * time.Second // a request that fails for a reason that may pass
	openWithin   = 15 * time.Second
	idleFor      = 3 * refreshEvery       // then a connection is closed: a handshake for each refresh would cost more
	oldest       = 100 * time.Millisecond // metadata younger than this is not asked for again
	maxPause     = 2 * time.Second        // between attempts to connect
	mostRead     = 100 << 20              // of one answer, or more where maxBytes is large
	mostWritten  = 64 << 20               // of a dead letter: the broker has the say
)

// connect makes a client that consumes nothing yet. It does not connect before it is asked for something.
func (set *settings) connect(hooks kgo.Hook) (*kgo.Client, error) {
	answer := 4 * set.maxBytes // of several partitions; at most 1 GiB
	opts := []kgo.Opt{
		kgo.SeedBrokers(set.brokers...),
		kgo.ClientID("shardctl"),
		kgo.SoftwareNameAndVersion("shardctl", "franz-go"),
		kgo.WithHooks(hooks),
		kgo.DisableClientMetrics(),
		kgo.MaxVersions(versions()),
		kgo.DialTimeout(dialWithin),
		kgo.RequestTimeoutOverhead(answerWithin),
		kgo.RetryTimeout(retryFor),
		kgo.RetryBackoffFn(pause),
		kgo.MetadataMinAge(oldest),
		kgo.ConnIdleTimeout(idleFor),
		// A broker that has nothing new answers after so long. Added partitions wait for that.
		kgo.FetchMaxWait(set.refresh / 3),
		kgo.FetchMaxPartitionBytes(int32(set.maxBytes)),      //nolint:gosec // G115: validated
		kgo.FetchMaxBytes(int32(answer)),                     //nolint:gosec // G115: at most 1 GiB
		kgo.BrokerMaxReadBytes(int32(max(mostRead, answer))), //nolint:gosec // G115: at most 1 GiB
		kgo.FetchIsolationLevel(set.isolation),
		// A session saves little for a few partitions. A broker has 1,000 of them for everybody, and Close waits to end
		// it.
		kgo.DisableFetchSessions(),
		// Places of transactions' ends are seen, so that the position goes past them.
		kgo.KeepControlRecords(),
		// A position that the log does not hold is an error: what follows is decided when the subscription opens again.
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerLinger(0),
		kgo.ProducerBatchMaxBytes(mostWritten),
		kgo.RecordDeliveryTimeout(retryFor),
	}
	return kgo.NewClient(append(opts, set.security...)...)
}

// pause is the time between attempts: from 50 ms, doubled each time, with jitter.
func pause(fails int) time.Duration {
	longest := min(maxPause, 100*time.Millisecond<<min(fails, 10))
	return longest/2 + rand.N(longest/2) //nolint:gosec // G404: for jitter any numbers will do
}

// versions are the newest that are spoken. Version 3 of ApiVersions is the newest that every broker since 2.4 knows: to
// ask by a newer one costs two requests for each connection.
var versions = sync.OnceValue(func() *kversion.Versions {
	v := kversion.Stable()
	v.SetMaxKeyVersion(18, 3)
	return v
})
