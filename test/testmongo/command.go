//go:build unix

package testmongo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"

	"github.com/shardctl/shardctl/internal/clock"
)

// pollEvery is how often the nodes are asked while waiting for an election.
const pollEvery = 30 * time.Millisecond

type helloReply struct {
	Primary   bool `bson:"isWritablePrimary"`
	Secondary bool `bson:"secondary"`
	Arbiter   bool `bson:"arbiterOnly"`
}

// Run runs a command on this node's admin database, whatever the node's role.
func (n *Node) Run(ctx context.Context, command bson.D) *mongo.SingleResult {
	return n.runAs(ctx, n.login(), command)
}

// runAs runs a command over a client that logs in with USER:PASSWORD@, or not at all.
func (n *Node) runAs(ctx context.Context, login string, command bson.D) *mongo.SingleResult {
	client, err := n.rs.client("mongodb://" + login + n.Addr() + "/?directConnection=true")
	if err != nil {
		return mongo.NewSingleResultFromDocument(bson.D{}, err, nil)
	}
	return client.Database("admin").RunCommand(ctx, command, options.RunCmd().SetReadPreference(readpref.Nearest()))
}

// hello asks the node for its role; a node that is down or stopped has none. No one has to log in for it, and an
// arbiter knows no users.
func (n *Node) hello(ctx context.Context) (reply helloReply) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_ = n.runAs(ctx, "", bson.D{{Key: "hello", Value: 1}}).Decode(&reply)
	return reply
}

// Primary waits until there is a primary and returns it. A stopped node that was primary does not count.
func (rs *ReplicaSet) Primary(ctx context.Context) (*Node, error) {
	if rs.external != "" {
		return nil, ErrExternal
	}
	for {
		for i, reply := range rs.hellos(ctx) {
			if reply.Primary {
				return rs.nodes[i], nil
			}
		}
		if err := clock.Sleep(ctx, pollEvery); err != nil {
			return nil, fmt.Errorf("no primary: %w", err)
		}
	}
}

// WaitInSync waits until each node is primary, secondary or arbiter.
func (rs *ReplicaSet) WaitInSync(ctx context.Context) error {
	if rs.external != "" {
		return ErrExternal
	}
	for {
		ready := 0
		for _, reply := range rs.hellos(ctx) {
			if reply.Primary || reply.Secondary || reply.Arbiter {
				ready++
			}
		}
		if ready == len(rs.nodes) {
			return nil
		}
		if err := clock.Sleep(ctx, pollEvery); err != nil {
			return fmt.Errorf("%d of %d nodes are in sync: %w", ready, len(rs.nodes), err)
		}
	}
}

// hellos asks all nodes at once, since a stopped one takes its whole second.
func (rs *ReplicaSet) hellos(ctx context.Context) []helloReply {
	replies := make([]helloReply, len(rs.nodes))
	done := make(chan struct{})
	for i, n := range rs.nodes {
		go func() {
			replies[i] = n.hello(ctx)
			done <- struct{}{}
		}()
	}
	for range rs.nodes {
		<-done
	}
	return replies
}

// StepDown has the primary step down for five seconds, and returns once another node is primary.
func (rs *ReplicaSet) StepDown(ctx context.Context) error {
	old, err := rs.Primary(ctx)
	if err != nil {
		return err
	}
	command := bson.D{
		{Key: "replSetStepDown", Value: 5}, {Key: "secondaryCatchUpPeriodSecs", Value: 2}, {Key: "force", Value: true},
	}
	if err := old.Run(ctx, command).Err(); err != nil {
		return fmt.Errorf("step down: %w", err)
	}
	_, err = rs.Primary(ctx)
	return err
}

// RunOnPrimary runs a command on the primary's admin database.
func (rs *ReplicaSet) RunOnPrimary(ctx context.Context, command bson.D) *mongo.SingleResult {
	if rs.external == "" && !rs.opts.Standalone {
		n, err := rs.Primary(ctx)
		if err != nil {
			return mongo.NewSingleResultFromDocument(bson.D{}, err, nil)
		}
		return n.Run(ctx, command)
	}
	uri := rs.URI()
	if rs.rootPassword != "" {
		uri = rs.RootURI()
	}
	client, err := rs.client(uri)
	if err != nil {
		return mongo.NewSingleResultFromDocument(bson.D{}, err, nil)
	}
	return client.Database("admin").RunCommand(ctx, command)
}

// client returns the client for a URI, kept until Close.
func (rs *ReplicaSet) client(uri string) (*mongo.Client, error) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.closed {
		return nil, errors.New("the replica set is closed")
	}
	if c := rs.clients[uri]; c != nil {
		return c, nil
	}
	c, err := mongo.Connect(options.Client().ApplyURI(uri).SetServerSelectionTimeout(10 * time.Second))
	if err == nil {
		rs.clients[uri] = c
	}
	return c, err
}

func (rs *ReplicaSet) disconnect() {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for _, c := range rs.clients {
		_ = c.Disconnect(ctx)
	}
}

// rootName is the user that Start makes with Options.Auth, and as whom Run, RunOnPrimary and fail points are sent.
const rootName = "root"

// URIAs is the connection string of a user of the database admin, without a database.
func (rs *ReplicaSet) URIAs(user, password string) string {
	scheme, rest, _ := strings.Cut(rs.URI(), "://")
	return scheme + "://" + url.UserPassword(user, password).String() + "@" + rest + "&authSource=admin"
}

// RootURI is the connection string of the user who may do everything; only with Options.Auth.
func (rs *ReplicaSet) RootURI() string { return rs.URIAs(rootName, rs.rootPassword) }

// makeRoot makes the first user. Until there is one, anyone who connects from the same host may.
func (rs *ReplicaSet) makeRoot(ctx context.Context) error {
	if !rs.opts.Auth {
		return nil
	}
	password := rand.Text()
	err := rs.RunOnPrimary(ctx, bson.D{
		{Key: "createUser", Value: rootName},
		{Key: "pwd", Value: password},
		{Key: "roles", Value: bson.A{"root"}},
		// or a member asked next would not know it
		{Key: "writeConcern", Value: bson.M{"w": len(rs.nodes) - rs.opts.Arbiters}},
	}).Err()
	if err != nil {
		return fmt.Errorf("make the first user: %w", err)
	}
	rs.rootPassword = password
	return nil
}

// login is root's, as a URI has it, where there is a root.
func (n *Node) login() string {
	if n.rs.rootPassword == "" {
		return ""
	}
	return rootName + ":" + n.rs.rootPassword + "@"
}
