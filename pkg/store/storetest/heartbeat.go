package storetest

import (
	"strings"

	"github.com/shardctl/shardctl/pkg/store"
)

// heartbeatBody is about as long as the body of a replica's session.
var heartbeatBody = []byte(`{"instance":"` + strings.Repeat("x", 250) + `"}`)

// Heartbeat returns the change that takes a live session from revision rev to the next; from 0 creates it. For tests of
// what heartbeats leave behind in a server.
func Heartbeat(session string, rev int64) store.Change {
	return store.Change{IfRev: rev, Doc: store.Doc{
		Kind: store.KindSession, ID: session, Rev: rev + 1, Count: rev, State: store.StateLive, Body: heartbeatBody,
		WriterID: store.WriterID{Session: session, Seq: rev + 1},
	}}
}
