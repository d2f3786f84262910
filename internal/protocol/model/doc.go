// Package model checks the protocol by searching. It takes the machines of package protocol, the very ones that run in
// production. It puts them together with a store, a network, clocks, guards and tasks made of values. It runs them in
// every order of events within bounds.
//
//	go test ./internal/protocol/model   every scenario whole or to a million states, and every weakening caught
//	make model                           every scenario whole
//
// Everything is in the tests; the package itself is empty. docs/protocol.md says what is checked and what is assumed.
package model
