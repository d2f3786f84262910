package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/shardctl/shardctl/pkg/store"
)

// schemaVersion is that of the layout of keys and documents.
const schemaVersion = 1

// Reasons of problems.
const (
	ReasonNotDurable = "StoreNotDurable" // a crash loses acknowledged writes, and keys pause for a lease
	ReasonUnknown    = "StoreUnchecked"  // a setting could not be looked at
	ReasonEviction   = "StoreEviction"   // documents would be dropped where a limit of memory is set
	ReasonPolled     = "StorePolled"     // the user may not use the channel: polling
	ReasonClosed     = "StoreClosed"     // no key can be claimed before the gate's key is deleted
)

// setup is the way to a store that is ready, and what was found on it.
type setup struct {
	*access
	problems []store.Problem
	silent   bool // the user may not use the channel
}

// run makes sure that the server will do, and that its database is of this layout.
func (s *setup) run(ctx context.Context, existing bool) error {
	d, err := s.describe(ctx)
	if err != nil {
		return err
	}
	if err := d.refuse(s.finder.target.cluster); err != nil {
		return err
	}
	if existing {
		return s.checkExisting(ctx)
	}
	r, err := s.good(ctx, s.others, setupScript, s.keys.of(store.KindLock), func(string) ([]any, error) {
		return []any{schemaVersion, s.channel}, nil
	})
	if errors.Is(err, errNodes) {
		return fmt.Errorf("%w: %w", store.ErrInvalid, err)
	}
	if err != nil {
		return err
	}
	version, _ := r.text(0)
	if err := s.checkVersion(version); err != nil {
		return err
	}
	s.problems = d.problems()
	if silent, _ := r.text(1); silent != "" {
		s.silent = true
		s.problems = append(s.problems, store.Problem{Reason: ReasonPolled, Message: "The user may not " +
			"publish on the channel " + s.channel +
			": changes are noticed by polling, a second late. Grant &shardctl:*."})
	}
	return s.checkNodes(ctx)
}

func (s *setup) checkVersion(text string) error {
	version, err := strconv.Atoi(text)
	if err != nil {
		return fmt.Errorf("%w: field schema of %s: no version", store.ErrSchema, s.keys.state())
	}
	return store.CheckSchema("field schema of "+s.keys.state(), version, schemaVersion)
}

// checkExisting reads what was set up before. The number of nodes is the one that is kept, if any.
func (s *setup) checkExisting(ctx context.Context) error {
	version, err := s.field(ctx, s.keys.state(), "schema")
	switch {
	case err != nil:
		return err
	case version == "":
		return nil // nothing is there yet: a reader finds nothing
	}
	if err := s.checkVersion(version); err != nil {
		return err
	}
	g, err := s.readGate(ctx)
	if n, wrong := strconv.Atoi(g.Nodes); wrong == nil && n > 0 {
		s.nodes = n
	}
	return err
}

// checkNodes compares the number of nodes that is kept with the one that is configured. Two that differ would mean two
// sizes of a majority.
func (s *setup) checkNodes(ctx context.Context) error {
	g, err := s.readGate(ctx)
	if err != nil {
		return err
	}
	if g.Nodes != "" && g.Nodes != strconv.Itoa(s.nodes) {
		return fmt.Errorf("%w: nodes=%d is configured, and the key %s keeps nodes=%s: configure that number, or stop every "+
			"replica of shardctl for the duration of a lease and delete the key", store.ErrInvalid, s.nodes,
			s.keys.gate(), g.Nodes)
	}
	if g.shut(s.nodes) {
		s.problems = append(s.problems, store.Problem{
			Reason:  ReasonClosed,
			Message: "The gate " + s.keys.gate() + " is closed: " + s.tooManySeen(g.Seen+g.Met) + ".",
		})
	}
	return nil
}
