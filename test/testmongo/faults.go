//go:build unix

package testmongo

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/shardctl/shardctl/test/testprocess"
)

// failPoints are those that this package sets.
var failPoints = []string{"failCommand", "onPrimaryTransactionalWrite"}

// FailCommand makes the primary fail the next commands as data says, times times; 0 ends it. data is that of MongoDB's
// fail point failCommand: failCommands, closeConnection, errorCode, writeConcernError, blockConnection, blockTimeMS.
// The commands fail before they are run, except with writeConcernError.
func (rs *ReplicaSet) FailCommand(ctx context.Context, times int, data bson.M) error {
	return rs.FailPoint(ctx, "failCommand", Times(times), data)
}

// LoseAnswers makes the primary close the connection right after each of the next retryable writes has been written. So
// its answer is lost, times times; 0 ends it.
func (rs *ReplicaSet) LoseAnswers(ctx context.Context, times int) error {
	return rs.FailPoint(ctx, "onPrimaryTransactionalWrite", Times(times), bson.M{"closeConnection": true})
}

// Times is the mode of a fail point that acts n times; 0 ends it.
func Times(n int) any {
	if n == 0 {
		return "off"
	}
	return bson.M{"times": n}
}

// After is the mode of a fail point that lets n commands pass and then acts until it is ended.
func After(n int) any { return bson.M{"skip": n} }

// FailPoint sets a fail point of the primary.
func (rs *ReplicaSet) FailPoint(ctx context.Context, name string, mode any, data bson.M) error {
	command := bson.D{{Key: "configureFailPoint", Value: name}, {Key: "mode", Value: mode}}
	if data != nil {
		command = append(command, bson.E{Key: "data", Value: data})
	}
	if err := rs.RunOnPrimary(ctx, command).Err(); err != nil {
		return fmt.Errorf("fail point %s (the server needs --setParameter enableTestCommands=1): %w", name, err)
	}
	return nil
}

// Sometimes is the mode of a fail point that acts with this probability, 0 to 1, until it is ended.
func Sometimes(probability float64) any { return bson.M{"activationProbability": probability} }

// EndFailPoints ends failCommand and LoseAnswers on every node, whatever its role: the one that they were set on may
// not be the primary any more. The error is that of nodes that did not answer.
func (rs *ReplicaSet) EndFailPoints(ctx context.Context) error {
	if rs.external != "" {
		return ErrExternal
	}
	var all []error
	for _, n := range rs.nodes {
		for _, name := range failPoints {
			command := bson.D{{Key: "configureFailPoint", Value: name}, {Key: "mode", Value: "off"}}
			if err := n.Run(ctx, command).Err(); err != nil {
				all = append(all, fmt.Errorf("end fail point %s on %s: %w", name, n.Addr(), err))
			}
		}
	}
	return errors.Join(all...)
}

// maxMessage is the largest message of MongoDB's protocol, and a margin.
const maxMessage = 64 << 20

// Direction is a way through a link.
type Direction int

// The two ways through a link.
const (
	Sent     Direction = iota // from the client to the servers
	Answered                  // from the servers to the client
)

// A Link is one client's network: it can be cut and slowed without any other client's noticing. In front of each node
// stands a proxy. A driver dials the addresses that the servers name, not those of its URI. So the proxies change the
// addresses in what the servers say into their own. Both are text of the same length, which keeps every message
// well-formed.
//
// A cut link swallows: connections stay open, new ones are taken, and nothing goes through. What was sent meanwhile
// arrives once it is healed, even when the sender has long closed the connection. So it is with TCP, which sends again
// what got lost. Its methods may be called concurrently.
type Link struct {
	uri     string
	lanes   [2]lane
	proxies []*testprocess.Proxy
}

// Link makes a link to the set, open and fast. Its URI has no database and no name of an application.
func (rs *ReplicaSet) Link(ctx context.Context) (*Link, error) {
	if rs.external != "" {
		return nil, ErrExternal
	}
	ports, err := testprocess.FreePorts(ctx, len(rs.nodes)) // of five digits, as those of the nodes
	if err != nil {
		return nil, err
	}
	var pairs []string // a node's address, its proxy's
	for i, n := range rs.nodes {
		pairs = append(pairs, n.Addr(), net.JoinHostPort(testprocess.Loopback, strconv.Itoa(ports[i])))
	}
	names := strings.NewReplacer(pairs...)
	l := &Link{uri: names.Replace(rs.URI())}
	l.lanes[Sent].change = func(message []byte) []byte { return message }
	l.lanes[Answered].change = func(message []byte) []byte { return []byte(names.Replace(string(message))) }
	for i := 0; i < len(pairs); i += 2 {
		proxy, err := testprocess.NewRelay(ctx, pairs[i+1], pairs[i], l.lanes[Sent].relay, l.lanes[Answered].relay)
		if err != nil {
			l.Close()
			return nil, err
		}
		l.proxies = append(l.proxies, proxy)
	}
	return l, nil
}

// URI is the connection string of the client whose network this is.
func (l *Link) URI() string { return l.uri }

// Cut has nothing go through any more in these directions; in both when none is named.
func (l *Link) Cut(directions ...Direction) {
	if len(directions) == 0 {
		directions = []Direction{Sent, Answered}
	}
	for _, d := range directions {
		l.lanes[d].gate.Shut()
	}
}

// Heal lets everything through again, first of all what waits.
func (l *Link) Heal() {
	for d := range l.lanes {
		l.lanes[d].gate.Open()
	}
}

// Slow delays each message in a direction by what delay says of it, which may be nothing; nil ends that. The messages
// of one connection stay in order.
func (l *Link) Slow(d Direction, delay func(message []byte) time.Duration) {
	l.lanes[d].delay.Store(&delay)
}

// Close ends the proxies and all connections through them.
func (l *Link) Close() {
	for _, p := range l.proxies {
		p.Close()
	}
}

// A lane is one direction of all connections of a link.
type lane struct {
	gate   testprocess.Gate
	delay  atomic.Pointer[func([]byte) time.Duration]
	change func([]byte) []byte
}

// relay passes messages on until either side ends, and then says so to the other.
func (l *lane) relay(ctx context.Context, to, from net.Conn) {
	defer func() {
		_ = l.gate.Pass(ctx) // the end of a connection is swallowed too
		_ = to.(*net.TCPConn).CloseWrite()
	}()
	for {
		message, err := readMessage(from)
		if err != nil || l.pass(ctx, message) != nil {
			return
		}
		if _, err := to.Write(l.change(message)); err != nil {
			_ = from.Close() // what comes is not read
			return
		}
	}
}

// pass waits until a message may go on.
func (l *lane) pass(ctx context.Context, message []byte) error {
	delay := l.delay.Load()
	if err := l.gate.Pass(ctx); err != nil || delay == nil || *delay == nil {
		return err
	}
	select {
	case <-time.After((*delay)(message)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// readMessage reads one message: its length comes first, itself included.
func readMessage(from io.Reader) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(from, head[:]); err != nil {
		return nil, err
	}
	size := binary.LittleEndian.Uint32(head[:])
	if size < 16 || size > maxMessage {
		return nil, errors.New("a message of " + strconv.Itoa(int(size)) + " bytes: not MongoDB's protocol")
	}
	message := make([]byte, size)
	copy(message, head[:])
	_, err := io.ReadFull(from, message[len(head):])
	return message, err
}
