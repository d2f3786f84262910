// Package session keeps this process's own session: the machine of package protocol, the document round it, and the
// member document with it.
//
// [Own] starts no goroutine and does no I/O. Its methods take events; what is to be done gathers in a [Ready].
package session
