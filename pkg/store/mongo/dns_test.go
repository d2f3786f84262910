package mongo_test

import (
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/dns"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/mongo"
)

// A DNS that fails is no wrong configuration, whenever it does: who waits for the database tries again.
func TestOpenWhileTheDNSFails(t *testing.T) {
	before := dns.DefaultResolver
	t.Cleanup(func() { dns.DefaultResolver = before })
	for answers := range 3 {
		asked := atomic.Int64{}
		dns.DefaultResolver = &dns.Resolver{
			LookupSRV: func(_, _, name string) (string, []*net.SRV, error) {
				if asked.Add(1) > int64(answers) {
					return "", nil, &net.DNSError{Err: "server misbehaving", Name: name, IsTemporary: true}
				}
				return "", []*net.SRV{{Target: "a." + name, Port: 1}}, nil
			},
			LookupTXT: func(string) ([]string, error) { return nil, nil },
		}
		_, err := mongo.Open(t.Context(), mongo.Options{
			URI: "mongodb+srv://user:s3cret@db.example.com/", Timeout: 300 * time.Millisecond,
		})
		if !errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrInvalid) {
			t.Errorf("the DNS fails after %d answers: %v, want unavailable", answers, err)
		}
	}
}
