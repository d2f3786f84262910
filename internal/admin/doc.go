// Package admin serves the listener that changes things: what an operator asks for by POST, and everything that
// only reads.
package admin
