package redis

import (
	"context"
	"errors"
	"fmt"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/dbstore"
)

// Init implements [driver.Initializer]: it opens the gate of a new database, so that the first claims need not wait for
// a lease. A database that lost everything looks the same. So the caller vouches that nothing runs which held a key.
func (registered) Init(ctx context.Context, c driver.Config) (made bool, err error) {
	s, err := Open(ctx, c)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, s.Close(context.WithoutCancel(ctx))) }()
	e := s.(*dbstore.Store) //nolint:forcetypeassert // Open returns no other
	err = e.Do(ctx, "open the gate of "+Redact(c.URI), func(ctx context.Context) error {
		made, err = e.Backend().(*backend).openGate(ctx)
		return err
	})
	return made, err
}

func (a *access) openGate(ctx context.Context) (made bool, err error) {
	keys := append(a.keys.of(driver.KindSession), a.keys.of(driver.KindLock)[3])
	r, err := a.good(ctx, a.others, initScript, keys, func(string) ([]any, error) { return nil, nil })
	if err != nil {
		return false, err
	}
	switch found, _ := r.text(0); found {
	case "new":
		return true, nil
	case "open":
		return false, nil
	}
	return false, fmt.Errorf("%w: the database is not new: its keys are claimed once replicas have run for one lease",
		driver.ErrInvalid)
}
