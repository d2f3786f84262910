package main

import (
	"context"
	"errors"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/config"
	"github.com/shardctl/shardctl/internal/guard"
)

// placeLimit is how long the guard may take to hear of the place.
const placeLimit = 5 * time.Second

// restartInPlace takes the place of this container's last process, and returns what that left behind. Whatever is in
// the way, the replica runs all the same. Its keys then wait for the lease after a death of the whole container, as
// those of any replica do.
func restartInPlace(
	ctx context.Context, client *guard.Client, pod config.Pod, log logr.Logger,
) (*guard.Place, []guard.Session) {
	if pod == (config.Pod{}) {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, placeLimit)
	defer cancel()
	place, left, err := client.InPlace(ctx, pod.Dir, guard.Identity{PodUID: pod.UID, Container: pod.Container})
	switch {
	case errors.Is(err, guard.ErrNotInPlace):
		log.Info(
			"No restart in place: after a death of the whole container its tasks wait for the lease", "error",
			err.Error(),
		)
		return nil, nil
	case err != nil:
		log.Error(
			err, "No restart in place: after a death of the whole container its tasks wait for the lease", "dir",
			pod.Dir,
		)
		return nil, nil
	}
	if len(left) > 0 {
		log.Info("Restarted in place: the sessions left here will be marked dead", "sessions", len(left))
	}
	return place, left
}
