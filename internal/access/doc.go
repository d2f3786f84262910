// Package access says who may ask for what, and how listeners and those who ask know each other. It has the tokens and
// their roles, the certificates and authorities of TLS, the names under which a listener may be reached, and the
// origins from which a browser may ask for changes.
//
// Tokens and certificates come from files, which are read again when they change: to renew one needs no restart.
//
// Beyond the roles it knows nothing of what is asked for. Its types are safe for concurrent use.
package access
