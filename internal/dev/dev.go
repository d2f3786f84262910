package dev

import (
	"context"
	"errors"
	"io"
	"os"
)

// ErrPort says that the page's port cannot be had.
var ErrPort = errors.New("--port")

// Terminal is where keys come from and the screen goes to. Nil: lines instead of a screen.
type Terminal struct{ In, Out *os.File }

// Run starts the cluster.
func Run(ctx context.Context, o Options, out io.Writer, terminal *Terminal) error {
	return errors.New("not yet")
}
