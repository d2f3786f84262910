package etcd

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/shardctl/shardctl/internal/clock"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/dbstore"
)

// nearlyFull is how much of its quota a database may use before that is a problem, in percent.
const nearlyFull = 80

// defaultQuota is --quota-backend-bytes of an etcd that does not say (before 3.6).
const defaultQuota = 2 << 30

// Inspect says which etcd this is, how full, and whether its history is compacted. See [store.Inspect].
//
// It asks every member that the URI names, each over a connection that is closed again.
func (b *backend) Inspect(ctx context.Context) (driver.Inspection, error) {
	seen, err := look(ctx, b.link, b.floors)
	if err != nil {
		return driver.Inspection{}, err
	}
	settings := []driver.Setting{seen.alarmsSetting(), seen.sizeSetting(), seen.historySetting()}
	members := make([]driver.Setting, len(b.link.endpoints.all))
	var asking sync.WaitGroup // at once: one that does not answer takes all the time there is
	for i, endpoint := range b.link.endpoints.all {
		asking.Go(func() { members[i] = b.member(ctx, endpoint) })
	}
	asking.Wait()
	settings = append(append(settings, members...), driver.Setting{
		Name: "unsafe-no-fsync", Value: "etcd does not say: make sure that no member runs with it", Holds: true,
	})
	return driver.Inspection{Server: "etcd " + seen.status.Version, Settings: settings}, nil
}

// findProblems looks at what an operator should know.
func (p parts) findProblems(ctx context.Context) ([]driver.Problem, error) {
	s, err := look(ctx, p.link, p.floors)
	if err != nil {
		return nil, err
	}
	problems := s.problems()
	_, err = p.link.client.Get(ctx, p.keys.notes(), clientv3.WithPrefix(), clientv3.WithCountOnly())
	if errors.Is(err, rpctypes.ErrPermissionDenied) { // who may read keys may watch them
		problems, err = append(problems, driver.Problem{Reason: ReasonPolled, Message: p.causes.Describe(err).Error() +
			"; until then etcd refuses to watch " + p.keys.notes() + ", and changes are noticed by polling"}), nil
	}
	return problems, err
}

// member asks one member for its version and part.
func (p parts) member(ctx context.Context, endpoint string) driver.Setting {
	is := driver.Setting{Name: "member " + endpoint, Want: "answers, is no learner, is " + leastVersion + " or newer"}
	status, err := p.link.client.Status(ctx, endpoint)
	switch {
	case err != nil:
		is.Value = p.causes.Describe(err).Error()
	case status.IsLearner:
		is.Value = "etcd " + status.Version + ", a learner"
	default:
		is.Value = "etcd " + status.Version + ", a follower"
		if status.Header.GetMemberId() == status.Leader {
			is.Value = "etcd " + status.Version + ", the leader"
		}
		if older, _ := dbstore.Older(status.Version, promptVersion); older {
			is.Value += ": notifications may be late before " + promptVersion
		}
		is.Holds = checkVersion(status.Version) == nil
	}
	return is
}

// seen is what one member says of the database.
type seen struct {
	status *etcdserverpb.StatusResponse
	alarms []string
	kept   time.Duration // how far back nothing was compacted, at least
}

func look(ctx context.Context, l *link, f *floors) (seen, error) {
	var s seen
	var err error
	if s.status, err = l.maintenance().Status(ctx, &etcdserverpb.StatusRequest{}); err != nil {
		return s, err
	}
	alarms, err := l.maintenance().Alarm(ctx, &etcdserverpb.AlarmRequest{})
	if err != nil {
		return s, err
	}
	for _, alarm := range alarms.Alarms {
		s.alarms = append(s.alarms, fmt.Sprintf("%s on member %x", alarm.Alarm, alarm.MemberID))
	}
	since, err := f.keptSince(ctx)
	if since > 0 {
		s.kept = time.Duration(clock.Wall().UnixMilli()-since) * time.Millisecond
	}
	return s, err
}

// quota is the size at which the database takes no writes any more.
func (s seen) quota() int64 {
	switch quota := s.status.DbSizeQuota; {
	case quota > 0:
		return quota
	case quota < 0: // switched off
		return math.MaxInt64
	default:
		return defaultQuota
	}
}

func (s seen) percent() int64 { return int64(100 * float64(s.status.DbSize) / float64(s.quota())) }

func (s seen) alarmsSetting() driver.Setting {
	is := driver.Setting{Name: "alarms", Value: "none", Want: "none", Holds: len(s.alarms) == 0}
	if !is.Holds {
		is.Value = strings.Join(s.alarms, ", ")
	}
	return is
}

func (s seen) sizeSetting() driver.Setting {
	return driver.Setting{
		Name: "quota-backend-bytes",
		Value: fmt.Sprintf("%d MiB, of which the database takes %d MiB (%d MiB in use)", s.quota()>>20,
			s.status.DbSize>>20, s.status.DbSizeInUse>>20),
		Want: "at most " + strconv.Itoa(nearlyFull) + " % used", Holds: s.percent() <= nearlyFull,
	}
}

func (s seen) historySetting() driver.Setting {
	value := "nothing old was found"
	if s.kept >= time.Hour {
		value = "nothing of the last " + s.kept.Round(time.Minute).String() + " or more was compacted"
	}
	return driver.Setting{
		Name: "auto-compaction-retention", Value: value, Want: "history of at most " + keptLong.String(),
		Holds: s.kept <= keptLong,
	}
}

func (s seen) problems() (all []driver.Problem) {
	switch {
	case len(s.alarms) > 0:
		all = append(all, driver.Problem{Reason: ReasonNearlyFull, Message: "etcd has raised an alarm: " +
			strings.Join(s.alarms, ", ") + ": with NOSPACE it takes no writes until it is compacted, defragmented " +
			"and disarmed"})
	case s.percent() > nearlyFull:
		all = append(all, driver.Problem{Reason: ReasonNearlyFull, Message: fmt.Sprintf("etcd's database takes %d %% "+
			"of --quota-backend-bytes, and it takes no writes when full: compact and defragment it, or raise the quota",
			s.percent())})
	}
	if s.kept > keptLong {
		all = append(all, driver.Problem{Reason: ReasonNotCompacted, Message: fmt.Sprintf("etcd keeps every heartbeat "+
			"of the last %s, and takes no writes once that fills its quota: start it with "+
			"--auto-compaction-retention=1h", s.kept.Round(time.Hour))})
	}
	return all
}
