package kafka

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/shardctl/shardctl/pkg/tasks/decode"
	"github.com/shardctl/shardctl/pkg/tasks/internal/access"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
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
	e := access.NewExpander(Name, session.Expand)
	set := &settings{
		brokers:    access.Addresses(e.Texts("brokers", s.Brokers)),
		topic:      e.Text("topic", s.TopicName),
		partitions: s.Partitions,
		group:      cmp.Or(e.Text("group", s.Group), "shardctl."+session.Group+"."+session.Name),
		missing:    cmp.Or(s.Missing, Stop),
		inStore:    s.Offsets == Store,
		isolation:  kgo.ReadCommitted(),
		maxBytes:   cmp.Or(s.MaxBytes, DefaultMaxBytes),
		refresh:    cmp.Or(s.refresh, refreshEvery),
		security:   secure(e, s.SASL, s.TLS),
	}
	if s.Isolation == ReadUncommitted {
		set.isolation = kgo.ReadUncommitted()
	}
	if e.Err() == nil {
		e.Add(set.check(s.Start)...)
	}
	return set, e.Err()
}

// check says what is wrong with what variables brought in, without quoting it.
func (set *settings) check(start string) []error {
	var errs []error
	if len(set.brokers) == 0 {
		errs = append(errs, errors.New("kafka.brokers: is empty, must be HOST:PORT of one broker or more"))
	}
	for _, address := range set.brokers {
		if !isAddress(address) {
			errs = append(errs, errors.New("kafka.brokers: must be "+addressMust))
			break
		}
	}
	if wrong := checkTopic(set.topic); wrong != "" {
		errs = append(errs, errors.New("kafka.topic: must be at most 249 letters, digits, '.', '_' and '-', and not empty"))
	}
	var err error
	if set.latest, set.at, err = parseStart(start); err != nil {
		errs = append(errs, errors.New("kafka.start: must be "+startMust))
	}
	return errs
}

// name is how errors call the subscription.
func (set *settings) name() string {
	return fmt.Sprintf("broker %s, topic %s", strings.Join(set.brokers, ","), set.topic)
}

// SASL is who the subscription is to the brokers. The zero value is no one in particular.
type SASL struct {
	Mechanism    string // PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512
	User         string
	Password     string
	PasswordFile string // instead of Password
}

// TLS is how connections are secured.
type TLS struct {
	Enabled           bool
	CAFile            string // empty: the system's authorities
	CertFile, KeyFile string // both or neither
}

func parseSASL(n *decode.Node, r *decode.Reader) SASL {
	l := access.ParseLogin(n, r)
	return SASL{r.Text(n.Get("mechanism"), ""), l.User, l.Password, l.PasswordFile}
}

func parseTLS(n *decode.Node, r *decode.Reader) TLS {
	files := access.ParseTLS(n, r)
	t := TLS{files != access.TLS{}, files.CAFile, files.CertFile, files.KeyFile}
	if enabled := n.Get("enabled"); enabled != nil {
		t.Enabled = r.Truth(enabled)
	}
	return t
}

func (s SASL) login() access.Login {
	return access.Login{User: s.User, Password: s.Password, PasswordFile: s.PasswordFile}
}

func (t TLS) files() access.TLS {
	return access.TLS{CAFile: t.CAFile, CertFile: t.CertFile, KeyFile: t.KeyFile}
}

func (s SASL) validate() []decode.FieldError {
	if s == (SASL{}) {
		return nil
	}
	var wrong []decode.FieldError
	required := func(field, words string) {
		wrong = append(wrong, decode.FieldError{Path: []string{field}, Message: words})
	}
	if s.Mechanism == "" {
		required("mechanism", "is required")
	}
	if s.User == "" {
		required("user", "is required")
	}
	if s.Password == "" && s.PasswordFile == "" {
		required("password", "is required, or passwordFile")
	}
	return decode.Within("sasl", slices.Concat(wrong,
		oneOf("mechanism", s.Mechanism, "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"), s.login().ValidatePassword()))
}

// printSecurity are the fields sasl and tls, where they are set.
func printSecurity(s SASL, t TLS) decode.Fields {
	var fields decode.Fields
	if s != (SASL{}) {
		fields = decode.Pairs("sasl", append(decode.Pairs("mechanism", s.Mechanism), s.login().Print()...))
	}
	if t != (TLS{}) {
		fields = append(fields,
			decode.Pairs("tls", append(decode.Pairs("enabled", t.Enabled), t.files().PrintFiles()...))...)
	}
	return fields
}

// secure are the options of a client that say how it connects. The files are read now. What is wrong is added to e.
func secure(e *access.Expander, s SASL, t TLS) []kgo.Opt {
	var opts []kgo.Opt
	if config := t.config(e); config != nil {
		opts = append(opts, kgo.DialTLSConfig(config))
	}
	if mechanism := s.mechanism(e); mechanism != nil {
		opts = append(opts, kgo.SASL(mechanism))
	}
	return opts
}

// mechanism is nil where there is none.
func (s SASL) mechanism(e *access.Expander) sasl.Mechanism {
	if s == (SASL{}) {
		return nil
	}
	login := e.Login("sasl", s.login())
	password, err := login.ReadPassword(Name + ".sasl")
	e.Add(err)
	switch s.Mechanism {
	case "SCRAM-SHA-256":
		return scram.Auth{User: login.User, Pass: password}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return scram.Auth{User: login.User, Pass: password}.AsSha512Mechanism()
	default:
		return plain.Auth{User: login.User, Pass: password}.AsMechanism()
	}
}

// config is nil where TLS is off.
func (t TLS) config(e *access.Expander) *tls.Config {
	if !t.Enabled {
		return nil
	}
	config, err := e.TLS(t.files()).Config(Name)
	e.Add(err)
	return config
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
