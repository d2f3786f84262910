package nats

import "github.com/shardctl/shardctl/pkg/tasks/internal/access"

// Name is the field of a task that chooses this source.
const Name = "nats"

// Where to begin, and what to do about a position that is no longer in the stream.
const (
	Earliest = "earliest"
	Latest   = "latest"
	Stop     = "stop"
)

// What fields are when left out.
const (
	DefaultStart   = Earliest
	DefaultMissing = Stop
)

// Source reads one stream of JetStream or, without Stream, a plain subject. Fields are as written: $(NAME) in them is
// replaced at each Open.
type Source struct {
	Servers  []string // HOST:PORT or nats://…, tls://…, several of them also with commas between
	Stream   string
	Subject  string // filter of a stream, or the plain subject; wildcards are allowed
	Consumer string // first part of the name of the durable consumers; empty: shardctl-GROUP-TASK
	Start    string // Earliest, Latest or a time as of RFC 3339; empty: Earliest
	Missing  string // Earliest, Latest or Stop; empty: Stop
	Login    Login
	TLS      TLS
}

// Login is how a replica says who it is: in one way, or not at all.
type Login struct {
	CredsFile      string // with a JWT and its seed
	NKeyFile       string // with the seed of an NKey
	TokenFile      string // its content is a token
	User, Password string
	PasswordFile   string // its content is the password
}

// basic is the way by user and password.
func (l Login) basic() access.Login {
	return access.Login{User: l.User, Password: l.Password, PasswordFile: l.PasswordFile}
}

// TLS is how connections are secured: by CAFile, the authorities to trust (empty: the system's), and by CertFile and
// KeyFile of the client, both or neither. All are names of PEM files, which are read at each Open. Where one is set,
// every connection uses TLS.
type TLS = access.TLS

// Kind is "nats".
func (s Source) Kind() string { return Name }

// Topic is the stream, and its filter behind a colon, or the plain subject.
func (s Source) Topic() string {
	if s.Stream == "" || s.Subject == "" {
		return s.Stream + s.Subject
	}
	return s.Stream + ":" + s.Subject
}
