//go:build unix

package testmongo

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

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
