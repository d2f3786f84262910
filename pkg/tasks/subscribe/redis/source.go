package redis

import (
	"cmp"
	"time"

	"github.com/shardctl/shardctl/pkg/tasks/internal/access"
)

// Name is the field of a task that chooses this source.
const Name = "redis"

// Where a position is kept.
const (
	Broker = "broker" // in a consumer group
	Store  = "store"  // with the lock, as a checkpoint
)

// Where to begin, and what to do about a position that is no longer in the stream.
const (
	Earliest = "earliest"
	Latest   = "latest"
	Stop     = "stop"
)

// What fields are when left out.
const (
	DefaultStart   = Earliest
	DefaultOffsets = Broker
	DefaultMissing = Stop
	DefaultField   = "body"
	DefaultBlock   = 5 * time.Second
)

// The fields of an entry that hold a message's key and media type. All others but the body's are headers.
const (
	keyField  = "key"
	typeField = "type"
)

// Source reads one stream. Fields are as written: $(NAME) in them is replaced at each Open.
type Source struct {
	URL     string // redis://HOST:PORT/DATABASE or rediss://…, with USER:PASSWORD@ where it is wanted
	Stream  string
	Group   string // of consumers; empty: shardctl.GROUP.TASK
	Start   string // Earliest, Latest, or the ID of the entry to begin after; empty: Earliest
	Offsets string // Broker or Store; empty: Broker
	Missing string // Earliest, Latest or Stop; empty: Stop
	Field   string // of an entry that holds the body; empty: body
	// Block is how long one read waits for entries; 0: the default. It bounds how soon a silent broker is noticed.
	Block time.Duration
	Login Login
	TLS   TLS
}

// Login is who connects: User, with Password or with PasswordFile, whose content is the password and is read at each
// Open.
type Login = access.Login

// TLS is how rediss is secured: by CAFile, the authorities to trust (empty: the system's), and by CertFile and KeyFile
// of the client, both or neither. All are names of PEM files, which are read at each Open.
type TLS = access.TLS

// Kind is "redis".
func (s Source) Kind() string { return Name }

// Topic is the stream.
func (s Source) Topic() string { return s.Stream }

func (s Source) inStore() bool { return s.Offsets == Store }

func (s Source) block() time.Duration { return cmp.Or(s.Block, DefaultBlock) }
