package kafka

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

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
