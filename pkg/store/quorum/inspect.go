package quorum

import (
	"context"
	"fmt"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/internal/quorum"
)

// ReasonMinorityAway is the reason of the problem that some servers do not count.
const ReasonMinorityAway = "StoreMinorityAway"

// Inspect says of each server whether it counts, and what its own store says. See [store.Inspect].
func (s *Store) Inspect(ctx context.Context) (store.Inspection, error) {
	ctx, release := s.life.Bound(ctx)
	defer release()
	is := store.Inspection{Server: fmt.Sprintf("quorum of %d servers", len(s.servers))}
	for _, at := range s.servers {
		is.Settings = append(is.Settings, at.inspect(ctx)...)
	}
	return is, nil
}

// inspect is what a server says of itself. That it does not count is among the problems.
func (s *server) inspect(ctx context.Context) []store.Setting {
	name := fmt.Sprintf("server %d", s.index+1)
	client, _, err := s.serving()
	var own store.Inspection
	if err == nil {
		own, err = store.Inspect(ctx, client)
	}
	if err != nil {
		return []store.Setting{{Name: name, Value: s.spec.Name + ", does not count", Holds: true}}
	}
	all := []store.Setting{{Name: name, Value: s.spec.Name, Holds: true}}
	if own.Server != "" {
		all[0].Value += ", " + own.Server
	}
	for _, setting := range own.Settings {
		setting.Name = name + " " + setting.Name
		all = append(all, setting)
	}
	return all
}

// Problems says which servers do not count now, and what the stores of the others say.
func (s *Store) Problems() []store.Problem {
	var all []store.Problem
	for i, at := range s.servers {
		client, _, err := at.serving()
		if err != nil {
			all = append(all, store.Problem{Reason: ReasonMinorityAway, Message: fmt.Sprintf(
				"Server %d of the quorum, %s, does not count: %v. At most %d of the %d may be away at once.",
				i+1, at.spec.Name, err, len(s.servers)-quorum.Majority(len(s.servers)), len(s.servers),
			)})
			continue
		}
		for _, p := range store.Problems(client) {
			p.Message = fmt.Sprintf("Server %d of the quorum: %s", i+1, p.Message)
			all = append(all, p)
		}
	}
	return all
}
