// Package certs serves certificates from files and trusts authorities from files. It reads the files again when they
// change, so that renewing a certificate needs no restart.
//
// Files are looked at when a connection is made, at most once a second. A new content that cannot be used is logged,
// and the last good one stays in force. A certificate and its key are rarely replaced in one step.
package certs
