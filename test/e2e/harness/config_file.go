//go:build linux

package harness

import "context"

// ConfigFile writes the configuration of a replica that is not started, for commands that take --config.
func (c *Cluster) ConfigFile(ctx context.Context) (string, error) {
	f, err := c.prepare(ctx, "nobody", func(server, admin string) (string, error) {
		text, err := c.config("nobody", server, admin, c.bins.Recorder, c.records())
		return string(text), err
	})
	return f.config, err
}
