package shard

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/shardctl/shardctl/internal/settings"
	"github.com/shardctl/shardctl/pkg/tasks"
)

const (
	defaultEvery = 30 * time.Second
	minEvery     = time.Second
)

// settings are those of a replica, as a file would have them. The error names each field that is wrong.
func (c *Config) settings(work Work) (*settings.Settings, []Group, error) {
	s := &settings.Settings{
		Cluster: cmp.Or(c.Options.Cluster, settings.DefaultCluster), Revision: c.Revision,
		Self: settings.Self{
			Instance: cmp.Or(c.Instance, settings.HostName()), Zone: c.Zone, Labels: c.Options.Labels,
			MaxTasks: c.Options.MaxKeys, Rollout: c.Options.Rollout,
		},
		Store: settings.Store{URI: c.Store, Renew: c.Options.RenewStore},
		App:   settings.App{Address: c.Address},
		Lease: settings.Lease{Duration: cmp.Or(c.Lease, settings.DefaultLease)},
		Rebalance: settings.Rebalance{
			Settle: max(0, cmp.Or(c.Settle, settings.DefaultSettle)), MaxMoves: c.Options.MaxMoves,
		},
	}
	s.Lease.RenewDeadline = s.Lease.Duration / 4 * 3
	var errs []error
	if (c.Store == "") == (c.Options.OpenStore == nil) {
		errs = append(errs, errors.New("needs one of Store and OpenStore"))
	}
	if !settings.IsDNSName(s.Instance) {
		errs = append(errs, fmt.Errorf("has Instance %q, must be a DNS name", s.Instance))
	}
	if c.Address != "" && !settings.IsHostPort(c.Address) {
		errs = append(errs, fmt.Errorf("has Address %q, must be HOST:PORT", c.Address))
	}
	if s.Lease.Duration < settings.MinLease || s.Lease.Duration > settings.MaxLease {
		errs = append(errs, fmt.Errorf("has Lease %s, must be from 1s to 24h", s.Lease.Duration))
	}
	if c.Options.MaxKeys < 0 || c.Options.MaxMoves < 0 {
		errs = append(errs, fmt.Errorf(
			"has MaxKeys %d and MaxMoves %d, must be 0 (no limit) or more", c.Options.MaxKeys, c.Options.MaxMoves,
		))
	}
	groups, err := c.groups(work)
	errs = append(errs, err)
	for _, g := range groups {
		built, err := g.settings()
		errs = append(errs, err)
		s.Groups = append(s.Groups, built)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, nil, fmt.Errorf("shard.Config %w", err)
	}
	return s, groups, nil
}

// groups are those of the configuration, checked and complete.
func (c *Config) groups(work Work) (groups []Group, err error) {
	all, inline := c.Groups, c.inline()
	var errs []error
	switch {
	case len(all) == 0:
		all = []Group{{Name: c.Group, Keys: c.Keys, KeysFrom: c.KeysFrom, Slots: c.Slots, Cap: c.Cap}}
	case len(inline) > 0:
		errs = append(errs, fmt.Errorf("has both Groups and %s, must have either", strings.Join(inline, ", ")))
	}
	for _, g := range all {
		if slices.ContainsFunc(groups, func(other Group) bool { return other.Name == g.Name }) {
			errs = append(errs, fmt.Errorf("group %q is there twice", g.Name))
		}
		if g.Work == nil {
			g.Work = work
		}
		g.KeysEvery = cmp.Or(g.KeysEvery, defaultEvery)
		errs = append(errs, g.check())
		if g.Slots > 0 {
			g.Keys = tasks.SlotNames(g.Slots)
		}
		groups = append(groups, g)
	}
	return groups, errors.Join(errs...)
}

// inline names the fields of the only group that are set.
func (c *Config) inline() (set []string) {
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"Group", c.Group != ""},
		{"Keys", c.Keys != nil},
		{"KeysFrom", c.KeysFrom != nil},
		{"Slots", c.Slots != 0},
		{"Cap", c.Cap != 0},
	} {
		if f.set {
			set = append(set, f.name)
		}
	}
	return set
}

// check finds what is wrong with a group as it is configured, but for its keys and its cap.
func (g *Group) check() error {
	var errs []error
	wrong := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("group %q "+format, append([]any{g.Name}, args...)...))
	}
	if !settings.IsDNSName(g.Name) {
		wrong("has no name of lower-case letters, digits, '-' and '.', as a DNS name has")
	}
	sources := 0
	for _, has := range []bool{len(g.Keys) > 0, g.KeysFrom != nil, g.Slots != 0} {
		if has {
			sources++
		}
	}
	if sources != 1 {
		wrong("needs one of Keys, KeysFrom and Slots")
	}
	if g.Slots < 0 || g.Slots > settings.MaxNames {
		wrong("has Slots %d, must be from 1 to %d", g.Slots, settings.MaxNames)
	}
	if g.KeysEvery < minEvery {
		wrong("has KeysEvery %s, must be at least %s", g.KeysEvery, minEvery)
	}
	if g.Work == nil {
		wrong("has no work")
	}
	return errors.Join(errs...)
}

// settings are those of the group, as a file would have them.
func (g *Group) settings() (settings.Group, error) {
	s := settings.Group{Name: g.Name, Slots: g.Slots, Selector: g.Selector, WeightFrom: settings.WeightReported}
	if g.Cap < 0 {
		return s, fmt.Errorf("group %q has Cap %d, must be 0 (no cap) or more", g.Name, g.Cap)
	}
	if limit := g.Cap; limit > 0 {
		s.Cap = &limit
	}
	if len(g.Keys) > settings.MaxNames {
		return s, fmt.Errorf("group %q has %d keys, must have at most %d", g.Name, len(g.Keys), settings.MaxNames)
	}
	keys := slices.Sorted(slices.Values(g.Keys))
	weights := make([]int, len(keys))
	run := &runner{g.Work}
	for i, name := range keys {
		if !settings.IsTaskName(name) {
			return s, fmt.Errorf("group %q has the key %q, must be %s", g.Name, name, settings.TaskNames)
		}
		if i > 0 && keys[i-1] == name {
			return s, fmt.Errorf("group %q has the key %q twice", g.Name, name)
		}
		t := g.Task.WithDefaults()
		t.Group, t.Name, t.Runner = g.Name, name, run
		if g.Weight != nil {
			t.Weight = max(1, g.Weight(name))
		}
		s.Tasks, weights[i] = append(s.Tasks, t), t.Weight
	}
	var err error
	s.Hash, err = listHash(g, keys, weights)
	return s, err
}

// listHash is the same in processes that plan and run the group's keys alike.
func listHash(g *Group, keys []string, weights []int) (string, error) {
	same := g.Task.WithDefaults()
	same.Runner = nil // it is filled in
	text, err := json.Marshal([]any{g.Selector, same, keys, weights})
	if err != nil {
		return "", fmt.Errorf("group %q: %w", g.Name, err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8]), nil
}
