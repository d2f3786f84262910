//go:build linux

package harness

// ClientAt reads the HTTP interface of a replica that somebody else started. An address may end with a path, for one
// that is reached through a proxy.
func ClientAt(server, admin string) *Client { return newClient(server, admin) }
