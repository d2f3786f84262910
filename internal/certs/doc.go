// Package certs serves certificates from files and trusts authorities from files. It reads the files again when they
// change (see package watchfile), so that renewing a certificate needs no restart.
package certs
