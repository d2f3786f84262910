//go:build unix

package testbroker

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// lateFiles are where a broker writes what it has confirmed before, as patterns within its directory.
var lateFiles = map[Kind]string{
	KindMosquitto: "mosquitto.db",
	KindRabbitMQ:  "mnesia/*/quorum/*/names.dets",
}

// writtenEvery is how often the files are looked at.
const writtenEvery = 20 * time.Millisecond

// WaitWritten is [Broker.WaitWritten] without a test.
func (b *Server) WaitWritten(ctx context.Context, text string) error {
	pattern, late := lateFiles[b.kind]
	for late {
		found, err := contains(b.Site().Path(pattern), text)
		if found || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s at %s has not written %q to %s: %w", b.kind, b.Addr(), text, pattern,
				context.Cause(ctx))
		case <-time.After(writtenEvery):
		}
	}
	return nil
}

// contains says whether a text stands in any file of a pattern. A file that goes meanwhile contains nothing.
func contains(pattern, text string) (bool, error) {
	files, err := filepath.Glob(pattern)
	if err != nil {
		return false, fmt.Errorf("look for %s: %w", pattern, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file) //nolint:gosec // of our own child
		if err == nil && bytes.Contains(data, []byte(text)) {
			return true, nil
		}
	}
	return false, nil
}
