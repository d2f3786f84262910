package kafka

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"
)

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
