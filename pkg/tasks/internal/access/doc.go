// Package access is what sources and listers that connect to a broker have in common: how fields that say where it is,
// who connects and by which certificates are read, checked, printed and expanded. It imports no client.
package access
