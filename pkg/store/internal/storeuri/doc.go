// Package storeuri reads the URIs by which settings name a database of several servers, for adapters whose drivers take
// no URI:
//
//	SCHEME://[USER[:PASSWORD]@]HOST[:PORT][,HOST[:PORT]…][/PATH][?NAME=VALUE[&NAME=VALUE…]]
//
// A URI may hold a password, also where it is wrong. So no error of this package quotes one.
package storeuri
