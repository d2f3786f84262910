// Package liveness keeps the other sessions as this process knows them: which of them live, which are dead, and
// which must be looked at.
//
// [Peers] starts no goroutine and does no I/O. Its methods take events; what is to be done gathers in a [Ready].
package liveness
