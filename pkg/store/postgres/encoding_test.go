package postgres_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/postgres"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/testservers"
)

// A name is one document for all processes, whatever the encoding of the database, and whatever client_encoding their
// roles and URIs ask for.
func TestEncodings(t *testing.T) {
	uri := testservers.Start(t, testservers.KindPostgres).Database()
	as := func(role, database, options string) string {
		return with(t, uri, func(u *url.URL) {
			u.User, u.Path = url.User(role), "/"+database
			q := u.Query()
			if options != "" {
				q.Set("options", options)
			}
			u.RawQuery = q.Encode()
		})
	}
	statements := []string{`CREATE ROLE plain LOGIN SUPERUSER`}
	clients := []string{"UTF8", "LATIN1", "SQL_ASCII"}
	for _, e := range clients {
		role := "role_" + strings.ToLower(e)
		statements = append(statements,
			`CREATE ROLE `+role+` LOGIN SUPERUSER`, `ALTER ROLE `+role+` SET client_encoding = '`+e+`'`)
	}
	if err := postgres.Exec(t.Context(), uri, statements...); err != nil {
		t.Fatal(err)
	}
	for encoding, name := range map[string]string{
		"UTF8": "東京", "LATIN1": "Zürich", "EUC_JP": "東京", "SQL_ASCII": "東京",
	} {
		t.Run(encoding, func(t *testing.T) {
			database := "in_" + strings.ToLower(encoding)
			if err := postgres.Exec(t.Context(), uri, `CREATE DATABASE `+database+` ENCODING '`+encoding+
				`' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0`); err != nil {
				t.Fatal(err)
			}
			all := map[string]string{"no role's": as("plain", database, "")}
			for _, e := range clients {
				all["role's "+e] = as("role_"+strings.ToLower(e), database, "")
				all["URI's "+e] = as("plain", database, "--client_encoding="+e)
			}
			first := storetest.Open(t, driver.Config{URI: all["no role's"], Timeout: 5 * time.Second})
			outcomes, err := first.Apply(t.Context(), driver.Change{Doc: driver.Doc{
				Kind: driver.KindMutex, ID: name, Rev: 1, WriterID: driver.WriterID{Session: "s", Seq: 1}, Body: []byte("held"),
			}})
			if err != nil || outcomes[0].Err != nil {
				t.Fatalf("write %q: %+v, %v", name, outcomes, err)
			}
			for client, uri := range all {
				s := storetest.Open(t, driver.Config{URI: uri, Timeout: 5 * time.Second})
				switch reply, err := s.Read(t.Context(), driver.KindMutex, name); {
				case err != nil:
					t.Errorf("client_encoding is %s: %v", client, err)
				case len(reply.Docs) != 1 || reply.Docs[0].ID != name:
					t.Errorf("client_encoding is %s: %q is %v, want what the first client wrote", client, name, reply.Docs)
				}
			}
		})
	}
}

// A character that the encoding of the database lacks fails with an error that says what to do.
func TestCharacterOutsideTheEncoding(t *testing.T) {
	uri := testservers.Start(t, testservers.KindPostgres).Database()
	if err := postgres.Exec(t.Context(), uri,
		`CREATE DATABASE western ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0`); err != nil {
		t.Fatal(err)
	}
	s := storetest.Open(t, driver.Config{
		URI: with(t, uri, func(u *url.URL) { u.Path = "/western" }), Timeout: 5 * time.Second,
	})
	_, err := s.Read(t.Context(), driver.KindMutex, "東京")
	if err == nil || !strings.Contains(err.Error(), "ENCODING 'UTF8'") {
		t.Errorf("read a name outside of LATIN1: %v, want that it names ENCODING 'UTF8'", err)
	}
}
